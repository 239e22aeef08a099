package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
)

// decoder reads YAML nodes into values and collects the problems. Unmarshalling into
// structs would lose the line of a value that has the right type but is invalid.
type decoder struct {
	file     string
	problems []Problem
}

// fields says what to do with each field of a mapping. Any other is unknown.
type fields map[string]func(n *yaml.Node, path string)

func (d *decoder) wrong(n *yaml.Node, path, format string, args ...any) {
	line := 1
	if n != nil && n.Line > 0 {
		line = n.Line
	}
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Field: path, Text: fmt.Sprintf(format, args...)})
}

var syntaxError = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

// parse returns the root of the only document.
func (d *decoder) parse(data []byte) (*yaml.Node, error) {
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document, another yaml.Node
	err := reader.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0 {
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1}, nil
	}
	if err == nil {
		if err = reader.Decode(&another); err == nil {
			d.wrong(&another, "", "a second document; a fleet file has one")
			return nil, &Error{Problems: d.problems}
		}
		if errors.Is(err, io.EOF) {
			return document.Content[0], nil
		}
	}
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the expression
		text = m[2]
	}
	d.wrong(&yaml.Node{Line: line}, "", "not YAML: %s", text)
	return nil, &Error{Problems: d.problems}
}

// resolve follows an alias to what it stands for. The schema has no recursion, so
// neither has the walk over aliases.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// eachPair calls f for the entries of a mapping that have a single string as key.
func (d *decoder) eachPair(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "must be a mapping, not %s", describe(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.wrong(key, path, "has a key that is %s", describe(key))
			continue
		}
		if seen[key.Value] {
			d.wrong(key, join(path, key.Value), "is given twice")
			continue
		}
		seen[key.Value] = true
		f(key, value)
	}
}

// mapping hands each field to its function and returns the value nodes by name.
func (d *decoder) mapping(n *yaml.Node, path string, known fields) map[string]*yaml.Node {
	present := map[string]*yaml.Node{}
	d.eachPair(n, path, func(key, value *yaml.Node) {
		f, ok := known[key.Value]
		if !ok {
			var names []string
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			d.wrong(key, join(path, key.Value), "unknown field; known are %s", strings.Join(names, ", "))
			return
		}
		present[key.Value] = value
		f(value, join(path, key.Value))
	})
	return present
}

// require reports the fields that are absent.
func (d *decoder) require(n *yaml.Node, path string, present map[string]*yaml.Node, names ...string) {
	if resolve(n).Kind != yaml.MappingNode {
		return // already reported
	}
	for _, name := range names {
		if present[name] == nil {
			d.wrong(n, join(path, name), "is missing")
		}
	}
}

func (d *decoder) list(n *yaml.Node, path string, limit int) []*yaml.Node {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "must be a list, not %s", describe(n))
		return nil
	}
	if len(n.Content) > limit {
		d.wrong(n, path, "has %d entries; at most %d", len(n.Content), limit)
		return nil
	}
	return n.Content
}

// text accepts strings and, because quotes are easily forgotten, numbers and booleans
// as they are written.
func (d *decoder) text(n *yaml.Node, path string) string {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.wrong(n, path, "must be a text, not %s", describe(n))
		return ""
	}
	return n.Value
}

func (d *decoder) oneOf(n *yaml.Node, path string, allowed ...string) string {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && slices.Contains(allowed, n.Value) {
		return n.Value
	}
	d.wrong(n, path, "%s is not one of %s", describe(n), strings.Join(allowed, ", "))
	return ""
}

func (d *decoder) boolean(n *yaml.Node, path string) bool {
	n = resolve(n)
	var value bool
	if n.Tag != "!!bool" || n.Decode(&value) != nil {
		d.wrong(n, path, "must be true or false, not %s", describe(n))
	}
	return value
}

// integer returns low when the value is wrong, so that the checks that follow do
// not report the same mistake again.
func (d *decoder) integer(n *yaml.Node, path string, low, high int64) int64 {
	n = resolve(n)
	var value int64
	if n.Tag != "!!int" || n.Decode(&value) != nil {
		d.wrong(n, path, "must be a whole number, not %s", describe(n))
		return low
	}
	if value < low || value > high {
		d.wrong(n, path, "%d is not between %d and %d", value, low, high)
		return low
	}
	return value
}

// plainQuantity excludes exponents: they are not used for a node's memory, and
// Kubernetes parses 1e99999 as a quantity of value 0.
var plainQuantity = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)

func (d *decoder) quantity(n *yaml.Node, path string) resource.Quantity {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && plainQuantity.MatchString(n.Value) {
		if q, err := resource.ParseQuantity(n.Value); err == nil && q.Sign() > 0 {
			return q
		}
	}
	d.wrong(n, path, "must be a positive quantity such as 96 or 512Gi, not %s", describe(n))
	return resource.Quantity{}
}

// memory is a device's memory as a quantity, in MiB.
func (d *decoder) memory(n *yaml.Node, path string) int64 {
	before := len(d.problems)
	q := d.quantity(n, path)
	if len(d.problems) > before {
		return 1
	}
	mib := q.Value() >> 20
	if mib < 1 || mib > maxMemory {
		d.wrong(n, path, "%s is not between 1Mi and %dTi: write it like 80Gi", q.String(), maxMemory>>20)
		return 1
	}
	return mib
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// element is the i-th node of a list, or the list.
func element(list *yaml.Node, i int) *yaml.Node {
	if list = resolve(list); i < len(list.Content) {
		return list.Content[i]
	}
	return list
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
