// Command gpu-scheduler is Tangram's scheduler: kube-scheduler with GPU plugins.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // the JSON log format
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and work queue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // Kubernetes' build information metric

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/kube/plugin"
	"github.com/tangram-dev/tangram/internal/version/metric"
)

func main() {
	legacyregistry.RawMustRegister(metric.BuildInfo("gpu-scheduler"))
	os.Exit(cli.Run(plugin.NewCommand(config.Scheduler())))
}
