package local

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// PrometheusProgram is the file of Prometheus among the programs.
const PrometheusProgram = "prometheus"

// Monitoring says what a Prometheus beside the cluster scrapes and evaluates.
type Monitoring struct {
	// Targets are the jobs, by name, and the loopback ports where their programs serve
	// /metrics over HTTPS under the cluster's authority.
	Targets map[string][]int
	// OwnLabels are the jobs whose series name namespaces and pods themselves, which must
	// not be overwritten by the target's.
	OwnLabels []string
	// Rules are rule files by name.
	Rules map[string][]byte
	// Namespace and ServiceAccount are the account whose token Prometheus shows; it must exist.
	Namespace, ServiceAccount string
	// ScrapeInterval and EvaluationInterval; 0 for 15 seconds.
	ScrapeInterval, EvaluationInterval time.Duration
}

// RunPrometheus starts Prometheus on a free loopback port and returns its URL once it
// answers. Samples, rules and configuration lie in Dir/prometheus; samples of earlier
// starts are kept for a day. It serves plain HTTP without authentication, as Prometheus
// does by default: every user of this machine can read the metrics.
func (c *Cluster) RunPrometheus(ctx context.Context, m Monitoring) (url string, err error) {
	dir := filepath.Join(c.dir, "prometheus")
	rules := filepath.Join(dir, "rules")
	// Rules of an earlier version must not stay.
	if err := os.RemoveAll(rules); err != nil {
		return "", err
	}
	if err := os.MkdirAll(rules, 0o700); err != nil {
		return "", err
	}
	for name, data := range m.Rules {
		if err := os.WriteFile(filepath.Join(rules, name), data, 0o600); err != nil {
			return "", err
		}
	}
	secret, err := c.Token(ctx, m.Namespace, m.ServiceAccount, nil)
	if err != nil {
		return "", err
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		return "", err
	}
	config, err := c.prometheusConfig(m, token, rules)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return "", err
	}
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	address := net.JoinHostPort(loopback, strconv.Itoa(port))
	url = "http://" + address
	ready, err := httpProbe(url+"/-/ready", c.authority.cert, nil)
	if err != nil {
		return "", err
	}
	_, err = c.Run(ctx, Program{
		Name: PrometheusProgram, Path: filepath.Join(c.bin, PrometheusProgram), Restart: true, Ready: ready,
		Args: []string{
			"--config.file=" + path, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--storage.tsdb.retention.time=1d", "--storage.tsdb.retention.size=1GB",
			"--web.listen-address=" + address, "--log.level=warn",
		},
	})
	return url, err
}

// prometheusConfig is Prometheus' configuration file.
func (c *Cluster) prometheusConfig(m Monitoring, token, rules string) ([]byte, error) {
	type object map[string]any
	var jobs []object
	for name, ports := range m.Targets {
		var targets []string
		for _, port := range ports {
			targets = append(targets, net.JoinHostPort(loopback, strconv.Itoa(port)))
		}
		jobs = append(jobs, object{
			"job_name": name, "scheme": "https", "honor_labels": slices.Contains(m.OwnLabels, name),
			"tls_config":     object{"ca_file": c.authority.certPath()},
			"authorization":  object{"credentials_file": token},
			"static_configs": []object{{"targets": targets}},
		})
	}
	slices.SortFunc(jobs, func(a, b object) int { return strings.Compare(a["job_name"].(string), b["job_name"].(string)) })
	return yaml.Marshal(object{
		"global": object{
			"scrape_interval":     cmp.Or(m.ScrapeInterval, 15*time.Second).String(),
			"evaluation_interval": cmp.Or(m.EvaluationInterval, 15*time.Second).String(),
		},
		"rule_files":     []string{filepath.Join(rules, "*.yaml")},
		"scrape_configs": jobs,
	})
}
