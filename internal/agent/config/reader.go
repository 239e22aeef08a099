package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader reads a YAML tree strictly and collects what is wrong with it, each with the
// path of the field and its line.
type reader struct {
	file string
	errs []error
}

func (r *reader) fail(n *yaml.Node, field, format string, args ...any) {
	if field == "" {
		field = "file"
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %s", r.file, n.Line, field, fmt.Sprintf(format, args...)))
}

// field is what reads one field of an object.
type field func(n *yaml.Node, path string)

// object reads a mapping whose fields are known; a field that is null is not set.
func (r *reader) object(n *yaml.Node, path string, fields map[string]field) {
	n = follow(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "%s, want an object with the fields %s", describe(n), known(fields))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		name := key.Value
		at := name
		if path != "" {
			at = path + "." + name
		}
		read, ok := fields[name]
		switch {
		case !ok:
			r.fail(key, clip(at), "unknown field%s", hint(name, fields))
		case seen[name]:
			r.fail(key, at, "is there twice")
		case !null(value):
			read(value, at)
		}
		seen[name] = true
	}
}

// list reads a sequence.
func (r *reader) list(n *yaml.Node, path string, most int, item field) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, path, "%s, want a list", describe(n))
		return
	}
	if len(n.Content) > most {
		r.fail(n, path, "%d entries, want at most %d", len(n.Content), most)
		return
	}
	for i, c := range n.Content {
		item(follow(c), fmt.Sprintf("%s[%d]", path, i))
	}
}

// text reads a string.
func (r *reader) text(set func(string) error) field {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			r.fail(n, path, "%s, want a text", describe(n))
			return
		}
		if err := set(n.Value); err != nil {
			r.fail(n, path, "%s", err)
		}
	}
}

// boolean reads true or false.
func (r *reader) boolean(set func(bool)) field {
	return func(n *yaml.Node, path string) {
		var v bool
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&v) != nil {
			more := ""
			if v, err := strconv.ParseBool(n.Value); err == nil && n.Kind == yaml.ScalarNode {
				more = fmt.Sprintf("; write %v without quotes", v)
			}
			r.fail(n, path, "%s, want true or false%s", describe(n), more)
			return
		}
		set(v)
	}
}

// integer reads a number in a range.
func (r *reader) integer(least, most int, why string, set func(int)) field {
	return func(n *yaml.Node, path string) {
		var v int
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil {
			r.fail(n, path, "%s, want a number", describe(n))
			return
		}
		switch {
		case v < least:
			r.fail(n, path, "%d, want at least %d%s", v, least, why)
		case v > most && most != math.MaxInt:
			r.fail(n, path, "%d, want at most %d%s", v, most, why)
		default:
			set(v)
		}
	}
}

// follow goes from an alias to what it stands for.
func follow(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 10; i++ {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what is there.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!str":
		return fmt.Sprintf("the text %q", clip(n.Value))
	default:
		return clip(n.Value)
	}
}

func known(fields map[string]field) string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// hint is the field that was probably meant, else all of them.
func hint(name string, fields map[string]field) string {
	names := strings.Split(known(fields), ", ")
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	for _, k := range names {
		if plain(k) == plain(name) || distance(plain(k), plain(name)) <= 2 {
			return "; is " + k + " meant?"
		}
	}
	return "; the fields here are " + strings.Join(names, ", ")
}

// distance is the number of letters to add, drop or change between two words.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
