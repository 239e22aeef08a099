package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const crdsHead = `# Custom resource definitions

<!-- Written by make generate from config/crd; do not edit. -->

What Tangram's chart installs. GPUNode is Tangram's own ([format](../formats/gpunode.md), with examples);
Jobs, PodGroups, Queues and Commands are Volcano's, made of its Go types with rules that the API server
checks ([jobs](../guides/jobs.md), [queues](../concepts/queues.md)). Fields of pod templates, of volumes and
below the third level are left out: ` + "`kubectl explain KIND.FIELD`" + ` has them. A rule is checked by the API server.
`

// definition is what the page needs of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string
		Scope string
		Names struct {
			Kind, Plural string
			ShortNames   []string
		}
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema schema
			}
		}
	}
}

// schema is what the page needs of a JSON schema.
type schema struct {
	Type        string
	Format      string
	Description string
	Enum        []any
	Minimum     *float64
	Maximum     *float64
	MaxLength   *int64
	MaxItems    *int64
	Required    []string
	Properties  map[string]schema
	Items       *schema
	IntOrString bool `json:"x-kubernetes-int-or-string"`
	Validations []struct {
		Message string
		Rule    string
	} `json:"x-kubernetes-validations"`
	Values *schema `json:"additionalProperties"`
}

// left are fields whose own fields the page leaves out: they are Kubernetes' types.
var left = map[string]bool{"template": true, "volumes": true, "volumeClaim": true, "metadata": true, "conditions": true}

// writeCRDs describes the custom resource definitions in config/crd.
func writeCRDs(p *page, root string) error {
	folder := filepath.Join(root, "config", "crd")
	ours, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	volcanos, err := filepath.Glob(filepath.Join(folder, "*", "*.yaml"))
	if err != nil {
		return err
	}
	p.WriteString(crdsHead)
	for _, file := range append(ours, volcanos...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var d definition
		if err := yaml.Unmarshal(raw, &d); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if d.Spec.Names.Kind == "" {
			return fmt.Errorf("%s: spec.names.kind is empty", file)
		}
		d.write(p)
	}
	return nil
}

func (d *definition) write(p *page) {
	n := d.Spec.Names
	for _, v := range d.Spec.Versions {
		p.printf("\n## %s\n\n`%s/%s`, resource `%s`%s, %s.\n\n", n.Kind, d.Spec.Group, v.Name, n.Plural, short(n.ShortNames), scope(d.Spec.Scope))
		p.table("field", "type", "")
		root := v.Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			s := root.Properties[part]
			if text := s.text(false); text != "" {
				p.row(code(part), "object", text)
			}
			s.fields(p, part, 1)
		}
		for _, part := range slices.Sorted(maps.Keys(root.Properties)) { // a Command has no spec
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status"}, part) {
				s := root.Properties[part]
				p.row(code(part), s.kind(), s.text(slices.Contains(root.Required, part)))
			}
		}
	}
}

// fields are the rows of an object's fields, and of those below down to the third level.
func (s schema) fields(p *page, path string, level int) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[name]
		p.row(code(path+"."+name), f.kind(), f.text(slices.Contains(s.Required, name)))
		if level == 3 || left[name] {
			continue
		}
		if f.Items != nil {
			f.Items.fields(p, path+"."+name+"[]", level+1)
		} else {
			f.fields(p, path+"."+name, level+1)
		}
	}
}

// kind is a type for people who write YAML.
func (s schema) kind() string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "array of " + s.Items.kind()
	case s.Values != nil:
		return "map of " + s.Values.kind()
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// text is what a field is, and its rules.
func (s schema) text(required bool) string {
	var out []string
	if d := oneLine(s.Description); d != "" {
		out = append(out, strings.TrimSuffix(d, "."))
	}
	if required {
		out = append(out, "required")
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, code(fmt.Sprint(e)))
		}
		out = append(out, "one of "+strings.Join(words, ", "))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		out = append(out, fmt.Sprintf("%.0f to %.0f", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		out = append(out, fmt.Sprintf("at least %.0f", *s.Minimum))
	case s.Maximum != nil:
		out = append(out, fmt.Sprintf("at most %.0f", *s.Maximum))
	}
	if s.MaxItems != nil {
		out = append(out, fmt.Sprintf("at most %d", *s.MaxItems))
	}
	if s.MaxLength != nil {
		out = append(out, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	for _, v := range s.Validations {
		message := v.Message
		if message == "" {
			message = code(v.Rule)
		}
		out = append(out, "rule: "+message)
	}
	return strings.ReplaceAll(strings.Join(out, "; "), "<", "&lt;")
}

func short(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func scope(s string) string {
	if s == "Cluster" {
		return "of the cluster"
	}
	return "of a namespace"
}
