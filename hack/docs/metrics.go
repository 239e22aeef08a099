package main

import (
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/kube/audit"
	"github.com/tangram-dev/tangram/internal/kube/controller"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/metrictable"
	"github.com/tangram-dev/tangram/internal/version/metric"
)

// metricsHead is what the page says before its tables.
const metricsHead = `# Metrics

<!-- Written by make generate from the tables of metrics in the code; do not edit. -->

Every metric of Tangram's programs. [The guide](../guides/metrics.md) says how to scrape them, how their figures are found, and how prices, targets and idle times are configured.
`

// tables are those of all programs.
func tables() []metrictable.Table {
	scheduler := metrics.Table()
	scheduler.Metrics = append(scheduler.Metrics, audit.Dropped)
	every := metrictable.Table{Program: "Every program", Where: "the same place as the program's own metrics", Metrics: []metrictable.Metric{metric.Build}}
	return []metrictable.Table{scheduler, controller.Table(), export.Table(), every}
}

// writeMetrics describes the metrics of all programs.
func writeMetrics(p *page, _ string) error {
	p.WriteString(metricsHead)
	var rows [][3]string // document, name there, metric
	for _, t := range tables() {
		p.printf("\n## %s\n\nServed at %s.%s\n\n", t.Program, t.Where, common(&t))
		p.table("metric", "type", "unit", "labels", "what", "from")
		for i := range t.Metrics {
			m := &t.Metrics[i]
			p.row(code(m.Name), string(m.Type), cell(m.Unit), labels(m, t.Common), cell(m.Help), cell(m.Source))
			for _, s := range m.StandsFor {
				document, name, _ := strings.Cut(s, " ")
				rows = append(rows, [3]string{document, cell(name), code(m.Name)})
			}
		}
	}
	p.WriteString("\n## Names in the requirement documents\n\n")
	p.table("document", "name there", "metric")
	slices.SortFunc(rows, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	for _, r := range rows {
		p.row(r[:]...)
	}
	return nil
}

// labels are a metric's labels with their values.
func labels(m *metrictable.Metric, common []string) string {
	var out []string
	rest := m.Labels
	if names := m.LabelNames(); len(common) > 0 && len(names) >= len(common) && slices.Equal(names[:len(common)], common) {
		out, rest = append(out, "common ones"), rest[len(common):]
	}
	for _, l := range rest {
		text := code(l.Name)
		if l.Values != "" {
			text += ": " + cell(l.Values)
		}
		out = append(out, text)
	}
	separator := "<br>"
	if !slices.ContainsFunc(rest, func(l metrictable.Label) bool { return strings.Contains(l.Values, " ") }) {
		separator = ", "
	}
	return strings.Join(out, separator)
}

// common lists the labels that are named once.
func common(t *metrictable.Table) string {
	if len(t.Common) == 0 {
		return ""
	}
	return " Common labels: `" + strings.Join(t.Common, "`, `") + "`."
}

// cell is a text without marks of HTML, on one line.
func cell(s string) string { return strings.NewReplacer("<", "&lt;", "\n", " ").Replace(s) }
