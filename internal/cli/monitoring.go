package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/monitoring"
)

// Whose token Prometheus shows: the service account of monitoring/rbac.yaml.
const (
	monitoringNamespace      = "monitoring"
	monitoringServiceAccount = "prometheus-k8s"
)

// Somebody waits in front of a local cluster: it is scraped more often than a real one.
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
