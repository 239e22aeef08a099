package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/monitoring"
)

// The service account of monitoring/rbac.yaml, whose token Prometheus shows.
const (
	monitoringNamespace      = "monitoring"
	monitoringServiceAccount = "prometheus-k8s"
)

// A local cluster is watched while it runs: it is scraped more often than a real one.
const (
	localScrapeInterval     = 5 * time.Second
	localEvaluationInterval = 10 * time.Second
)

// requireMonitoring returns an error with the remedy when --monitoring cannot work.
func requireMonitoring(bin string) error {
	info, err := os.Stat(filepath.Join(bin, local.PrometheusProgram))
	if err == nil && info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("--monitoring: %s lacks %s: run make monitoring, which builds it, or name the folder that has it with --bin",
		bin, local.PrometheusProgram)
}

// startMonitoring runs Prometheus with the rules of monitoring/ over everything that this
// session has started.
func (s *session) startMonitoring(ctx context.Context) error {
	if err := s.cluster.ApplyManifests(ctx, monitoring.RBAC()); err != nil {
		return err
	}
	rules := map[string][]byte{}
	for _, f := range monitoring.Rules() {
		rules[f.Name] = f.Data
	}
	url, err := s.cluster.RunPrometheus(ctx, local.Monitoring{
		Targets: s.serving, OwnLabels: []string{agentProgram}, Rules: rules,
		Namespace: monitoringNamespace, ServiceAccount: monitoringServiceAccount,
		ScrapeInterval: localScrapeInterval, EvaluationInterval: localEvaluationInterval,
	})
	s.prometheus = url
	return err
}

// priceFile, in the state directory, is the price table by which cost is counted.
const priceFile = "prices.yaml"

// withPrices writes the example's price table, unless the state directory has one, which the
// user may have changed, and names it in a scheduler's configuration.
func (s *session) withPrices(config []byte) ([]byte, error) {
	path := filepath.Join(s.options.dir, priceFile)
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, monitoring.Prices(), 0o600); err != nil {
			return nil, err
		}
	}
	var whole struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string         `json:"name"`
				Args map[string]any `json:"args"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	var out map[string]any // everything, also what the struct above leaves out
	if err := yaml.Unmarshal(config, &whole); err != nil {
		return nil, fmt.Errorf("scheduler's configuration: %w", err)
	}
	if err := yaml.Unmarshal(config, &out); err != nil {
		return nil, fmt.Errorf("scheduler's configuration: %w", err)
	}
	profiles, _ := out["profiles"].([]any)
	for i, p := range whole.Profiles {
		for _, c := range p.PluginConfig {
			if c.Name == names.PluginQueue {
				c.Args["metrics"] = map[string]any{"priceTable": path}
			}
		}
		profiles[i].(map[string]any)["pluginConfig"] = p.PluginConfig
	}
	return yaml.Marshal(out)
}
