// Package monitoring embeds the Prometheus rules and Grafana dashboards, so that the files
// people read, the chart installs and `tangram up --monitoring` runs are the same.
//
// rules/ has plain rule groups for Prometheus, dashboards/ has Grafana's JSON model,
// operator/ the same rules and the scrape targets as objects of prometheus-operator, and
// rbac.yaml what Prometheus may read. hack/monitoring generates dashboards/ and the rules
// of operator/.
package monitoring

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed rules/*.yaml dashboards/*.json rbac.yaml prices.yaml
var files embed.FS

// A File is one file of this folder.
type File struct {
	Name string // without its folder
	Data []byte
}

// Rules are the recording and alerting rules, as Prometheus' rule_files, in the order of
// their names.
func Rules() []File { return list("rules") }

// Dashboards are the dashboards in Grafana's JSON model, in the order of their names.
func Dashboards() []File { return list("dashboards") }

// RBAC is a service account that may read the metrics of all programs, and nothing else.
func RBAC() []byte { return read("rbac.yaml") }

// Prices is an example of a price table for the scheduler: requirement document 001's.
func Prices() []byte { return read("prices.yaml") }

func list(folder string) []File {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		panic(fmt.Sprintf("embedded folder: %v", err)) // named by the pattern above
	}
	out := make([]File, 0, len(entries))
	for _, e := range entries {
		out = append(out, File{e.Name(), read(path.Join(folder, e.Name()))})
	}
	return out
}

func read(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("embedded file: %v", err)) // named by the pattern above
	}
	return data
}
