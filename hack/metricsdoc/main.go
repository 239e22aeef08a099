// Command metricsdoc writes docs/reference/metrics.md from the tables of metrics in the
// code. It is a step of make generate.
package main

import (
	"fmt"
	"os"

	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/kube/audit"
	"github.com/tangram-dev/tangram/internal/kube/controller"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/metrictable"
	"github.com/tangram-dev/tangram/internal/version/metric"
)

// tables are those of all programs.
func tables() []metrictable.Table {
	scheduler := metrics.Table()
	scheduler.Metrics = append(scheduler.Metrics, audit.Dropped)
	every := metrictable.Table{Program: "Every program", Where: "the same place as the program's own metrics", Metrics: []metrictable.Metric{metric.Build}}
	return []metrictable.Table{scheduler, controller.Table(), export.Table(), every}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metricsdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(metrictable.Page(tables())), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
