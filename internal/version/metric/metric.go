// Package metric shows the version of a program as a Prometheus metric.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/internal/metrictable"
	"github.com/tangram-dev/tangram/internal/version"
)

// Build describes BuildInfo's metric; all programs that serve metrics have it.
var Build = metrictable.Metric{
	Name: "tangram_build_info", Type: metrictable.Gauge, Unit: "1",
	Labels: []metrictable.Label{{Name: "program", Values: "the program"}, {Name: "version", Values: "its version"}, {Name: "go_version", Values: "Go's version"}, {Name: "platform", Values: "operating system and architecture"}},
	Help:   "Always 1; the labels say which program this is and what it was built from.",
	Source: "stamped at build time",
}

// BuildInfo is tangram_build_info, which is always 1: join it to other metrics to see
// which versions run.
func BuildInfo(program string) prometheus.Collector {
	info := version.Get()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: Build.Name,
		Help: Build.Help,
		ConstLabels: prometheus.Labels{
			"program": program, "version": info.Version, "go_version": info.Go, "platform": info.Platform,
		},
	}, func() float64 { return 1 })
}
