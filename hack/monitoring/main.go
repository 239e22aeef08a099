// Command monitoring writes what is generated in the folder monitoring: the Grafana
// dashboards, and the rules as an object of prometheus-operator. make generate runs it.
//
//	go run ./hack/monitoring FROM TO      # two roots: of the repository, and to write below
//
// Read grafana.go for the model, then the dashboards: fleet.go, queues.go, scheduler.go,
// devices.go; operator.go for the object.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: monitoring FROM TO")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// write generates all files below to.
func write(from, to string) error {
	files, err := generate(from)
	if err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by their path below root. It reads the rules from there.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range []dashboard{fleet(), scheduler(), queues(), devices()} {
		data, err := d.encode()
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.uid, err)
		}
		files["monitoring/dashboards/"+d.uid+".json"] = data
	}
	rules, err := prometheusRule(filepath.Join(root, "monitoring", "rules"))
	if err != nil {
		return nil, err
	}
	files["monitoring/operator/prometheusrule.yaml"] = rules
	return files, nil
}
