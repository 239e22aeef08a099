package metrictable

import (
	"fmt"
	"slices"
	"strings"
)

// intro is what the page says before its tables.
const intro = "# Metrics\n\n" +
	"<!-- Generated from the code by hack/metricsdoc (make generate). Edit the definitions, not this page. -->\n\n" +
	"Every metric of Tangram's programs. [The guide](../guides/metrics.md) says how to scrape them, how their figures are found, and how prices, targets and idle times are configured.\n"

// Page is docs/reference/metrics.md.
func Page(tables []Table) string {
	var b strings.Builder
	b.WriteString(intro)
	for _, t := range tables {
		fmt.Fprintf(&b, "\n## %s\n\nServed at %s.%s\n\n| metric | type | unit | labels | what | from |\n|---|---|---|---|---|---|\n", t.Program, t.Where, common(&t))
		for i := range t.Metrics {
			m := &t.Metrics[i]
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, m.Type, cell(m.Unit), labels(m, t.Common), cell(m.Help), cell(m.Source))
		}
	}
	b.WriteString("\n## Names in the requirement documents\n\n| document | name there | metric |\n|---|---|---|\n")
	type row struct{ document, name, metric string }
	var rows []row
	for _, t := range tables {
		for _, m := range t.Metrics {
			for _, s := range m.StandsFor {
				document, name, _ := strings.Cut(s, " ")
				rows = append(rows, row{document, name, m.Name})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return strings.Compare(a.document+"\x00"+a.name+"\x00"+a.metric, b.document+"\x00"+b.name+"\x00"+b.metric)
	})
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", r.document, cell(r.name), r.metric)
	}
	return b.String()
}

// labels are a metric's labels with their values.
func labels(m *Metric, common []string) string {
	var out []string
	rest := m.Labels
	if names := m.LabelNames(); len(common) > 0 && len(names) >= len(common) && slices.Equal(names[:len(common)], common) {
		out, rest = append(out, "common ones"), rest[len(common):]
	}
	for _, l := range rest {
		text := "`" + l.Name + "`"
		if l.Values != "" {
			text += ": " + cell(l.Values)
		}
		out = append(out, text)
	}
	separator := "<br>"
	if !slices.ContainsFunc(rest, func(l Label) bool { return strings.Contains(l.Values, " ") }) {
		separator = ", "
	}
	return strings.Join(out, separator)
}

// common lists the labels that are named once.
func common(t *Table) string {
	if len(t.Common) == 0 {
		return ""
	}
	return " Common labels: `" + strings.Join(t.Common, "`, `") + "`."
}

// cell is a text in a table of Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
