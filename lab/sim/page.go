package sim

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"os"
	"slices"
)

//go:embed *.tmpl.html *.tmpl.svg
var templates embed.FS

// render writes a template's output to a file that needs no other: a page, or a picture.
func render(file, name string, data any) error {
	t, err := template.New("").Funcs(template.FuncMap{
		"about":     aboutQueuePolicy,
		"colour":    colour,
		"hours":     func(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) },
		"thousands": thousands,
	}).ParseFS(templates, "*")
	if err != nil {
		return fmt.Errorf("parse templates: %w", err)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, data); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// colour is that of a policy, one of its own on every page. Tangram's stands out.
func colour(policy string) string {
	if policy == "tangram" {
		return "#d9480f"
	}
	colours := []string{"#868e96", "#a67c00", "#1c7ed6", "#862e9c", "#2b8a3e", "#0b7285", "#5c940d", "#c2255c"}
	at := slices.Index(packPolicyNames, policy)
	if at < 0 {
		at = slices.Index(queuePolicyNames(), policy)
	}
	return colours[max(0, at)%len(colours)]
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
