package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	tableBegin = "<!-- values: go test ./test/chart -run Values -update -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// TestValuesTable compares the table of the chart's README with values.yaml.
func TestValuesTable(t *testing.T) {
	t.Parallel()
	file := chartDir + "/README.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", file, tableBegin, tableEnd)
	}
	want := before + tableBegin + valuesTable(t) + tableEnd + after
	if want == string(data) {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table of %s is not that of values.yaml: go test ./test/chart -run Values -update", file)
}

// value is one row: a leaf of values.yaml, with the comment above it.
type value struct{ path, text, meaning string }

func valuesTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range values(t) {
		if v.meaning == "" {
			t.Errorf("values.yaml: %s has no comment", v.path)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.path, v.text, v.meaning)
	}
	return b.String()
}

func values(t *testing.T) []value {
	t.Helper()
	data, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var all []value
	var walk func(prefix, meaning string, n *yaml.Node)
	walk = func(prefix, meaning string, n *yaml.Node) {
		for i := 0; i < len(n.Content); i += 2 {
			name, of := n.Content[i], n.Content[i+1]
			path := prefix + name.Value
			if text := own(name); text != "" {
				meaning = text // one comment may be for several values
			}
			// A map is a group unless it is a value of Kubernetes' own.
			if of.Kind == yaml.MappingNode && len(of.Content) > 0 && of.Style&yaml.FlowStyle == 0 && !slices.Contains(opaque, path[strings.LastIndex(path, ".")+1:]) {
				walk(path+".", strings.TrimSpace(own(name)), of)
				continue
			}
			all = append(all, value{path, inline(t, of), strings.ReplaceAll(meaning, "|", "\\|")})
		}
	}
	walk("", "", doc.Content[0])
	return all
}

// own is the comment above a field.
func own(name *yaml.Node) string {
	return strings.ReplaceAll(strings.TrimPrefix(name.HeadComment, "# "), "\n# ", " ")
}

// opaque are values that are handed on as a whole.
var opaque = []string{"resources", "config"}

// inline is a value in one line.
func inline(t *testing.T, n *yaml.Node) string {
	t.Helper()
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "" {
		return `""`
	}
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSchemaKnowsAllValues compares the schema's fields with those of values.yaml: one that
// is missing there would be refused, one that is missing here would have no default.
func TestSchemaKnowsAllValues(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties           map[string]*node
		AdditionalProperties any
	}
	var schema node
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	var fields []string
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for name, of := range n.Properties {
			path := prefix + name
			if len(of.Properties) > 0 && !slices.Contains(opaque, name) {
				if of.AdditionalProperties != false {
					t.Errorf("schema: %s lets unknown fields in", path)
				}
				walk(path+".", of)
				continue
			}
			fields = append(fields, path)
		}
	}
	walk("", &schema)
	var have []string
	for _, v := range values(t) {
		have = append(have, v.path)
	}
	for _, f := range fields {
		if !slices.Contains(have, f) && f != "global" { // helm's own
			t.Errorf("the schema has %s, values.yaml has not", f)
		}
	}
	for _, h := range have {
		if !slices.Contains(fields, h) {
			t.Errorf("values.yaml has %s, the schema has not", h)
		}
	}
}
