package migrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Input is a file, or an object of a cluster as YAML.
type Input struct {
	// Name is the file's, or namespace/kind/name of the object's, for messages.
	Name string
	Data []byte
	// Object: it is not a file, so lines say nothing.
	Object bool
}

// Limits on what is read, far above what people write.
const (
	maxInput = 32 << 20
	maxDepth = 200
	maxNodes = 2_000_000
)

// Problem is input that cannot be read.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // 0 for objects of a cluster
	Field string `json:"field,omitempty"`
	Text  string `json:"problem"`
}

// Error prints file, line, field and what is wrong.
func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	if p.Field != "" {
		at += ": " + p.Field
	}
	return at + ": " + p.Text
}

// tree is a node of a YAML document with its place.
type tree struct {
	in   *Input
	path string
	// object is kind/name of the object that it is part of; empty for plain configurations.
	object string
	// base is added to lines: those of a document inside another (a ConfigMap's entry).
	base int
	n    *yaml.Node
}

// entry is one key of a mapping with its value.
type entry struct {
	key string
	at  *yaml.Node // the key
	tree
}

var syntaxError = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s*)?line (\d+): (.*)`)

// parse returns the documents of an input that are not empty.
func parse(in *Input) ([]tree, []Problem) { return parseAt(in, in.Data, "", 0) }

func parseAt(in *Input, data []byte, path string, base int) (docs []tree, problems []Problem) {
	if len(data) > maxInput {
		return nil, []Problem{{File: in.Name, Field: path, Text: fmt.Sprintf("%d MiB, at most %d", len(data)>>20, maxInput>>20)}}
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := reader.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, problems
		}
		if err != nil {
			line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
			if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
				line, _ = strconv.Atoi(m[1]) // digits, by the expression
				text = m[2]
			}
			return docs, append(problems, in.problem(line+base, path, "not YAML: %s", text))
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		t := tree{in: in, path: path, base: base, n: doc.Content[0]}
		budget := maxNodes
		if p := t.bounded(t.n, 0, &budget); p != nil {
			return docs, append(problems, *p)
		}
		docs = append(docs, t)
	}
}

func (in *Input) problem(line int, path, format string, args ...any) Problem {
	if in.Object {
		line = 0
	}
	return Problem{File: in.Name, Line: line, Field: path, Text: fmt.Sprintf(format, args...)}
}

// hugeNumber is a number whose exponent takes readers of quantities minutes.
var hugeNumber = regexp.MustCompile(`^[0-9.+-]+[eE][+-]?[0-9]{3,}$`)

// bounded refuses documents that are too deep or too large once aliases are followed, and
// keys that are there twice.
func (t tree) bounded(n *yaml.Node, depth int, budget *int) *Problem {
	fail := func(format string, args ...any) *Problem {
		p := t.in.problem(n.Line+t.base, t.path, format, args...)
		return &p
	}
	if *budget--; *budget < 0 {
		return fail("more than %d values", maxNodes)
	}
	if depth > maxDepth {
		return fail("nested more than %d deep", maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return t.bounded(n.Alias, depth+1, budget)
	}
	if n.Kind == yaml.ScalarNode && hugeNumber.MatchString(n.Value) {
		return fail("%.40s: an exponent of at most 2 digits", n.Value)
	}
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Kind != yaml.ScalarNode {
				return fail("a key that is not a word")
			}
			if seen[c.Value] {
				n = c
				return fail("%s is there twice", c.Value)
			}
			seen[c.Value] = true
			continue
		}
		if p := t.bounded(c, depth+1, budget); p != nil {
			return p
		}
	}
	return nil
}

// node is the value itself, behind an alias.
func (t tree) node() *yaml.Node {
	n := t.n
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func (t tree) line() int {
	if t.in.Object || t.n == nil {
		return 0
	}
	return t.n.Line + t.base
}

func (t tree) problem(format string, args ...any) Problem {
	line := 0
	if t.n != nil {
		line = t.n.Line + t.base
	}
	return t.in.problem(line, t.path, format, args...)
}

// is says whether the value is of a kind; an absent one is of none.
func (t tree) is(kind yaml.Kind) bool { n := t.node(); return n != nil && n.Kind == kind }

func (t tree) isMap() bool  { return t.is(yaml.MappingNode) }
func (t tree) isList() bool { return t.is(yaml.SequenceNode) }
func (t tree) isNull() bool { return t.n == nil || t.node().Tag == "!!null" }

// text is a scalar as it is written; empty for others.
func (t tree) text() string {
	if !t.is(yaml.ScalarNode) || t.isNull() {
		return ""
	}
	return t.node().Value
}

// shown is a value for people: scalars as they are, others shortened.
func (t tree) shown() string {
	switch {
	case t.isNull():
		return ""
	case t.isMap() && len(t.node().Content) == 0:
		return "{}"
	case t.isMap():
		return "{...}"
	case t.isList():
		var parts []string
		for _, e := range t.items() {
			parts = append(parts, e.shown())
		}
		return "[" + clip(strings.Join(parts, ", "), 60) + "]"
	}
	return clip(t.text(), 80)
}

func clip(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}

// child extends the path.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// entries are the keys of a mapping in their order; none of others.
func (t tree) entries() []entry {
	if !t.isMap() {
		return nil
	}
	n := t.node()
	var out []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Tag == "!!merge" { // <<: *anchor
			merged := t
			merged.n = n.Content[i+1]
			for _, e := range merged.entries() {
				if !slices.ContainsFunc(out, func(o entry) bool { return o.key == e.key }) {
					out = append(out, e)
				}
			}
			continue
		}
		e := entry{key: k.Value, at: k, tree: t}
		e.n, e.path = n.Content[i+1], child(t.path, k.Value)
		out = slices.DeleteFunc(out, func(o entry) bool { return o.key == e.key })
		out = append(out, e)
	}
	return out
}

// keyLine is the line of the key.
func (e entry) keyLine() int {
	if e.in.Object {
		return 0
	}
	return e.at.Line + e.base
}

// items are the entries of a list; none of others.
func (t tree) items() []tree {
	if !t.isList() {
		return nil
	}
	var out []tree
	for i, n := range t.node().Content {
		c := t
		c.n, c.path = n, fmt.Sprintf("%s[%d]", t.path, i)
		out = append(out, c)
	}
	return out
}

// get is the value at a path of keys; without a node when it is not there.
func (t tree) get(keys ...string) tree {
	for _, key := range keys {
		next := tree{in: t.in, path: child(t.path, key), object: t.object, base: t.base}
		for _, e := range t.entries() {
			if e.key == key {
				next = e.tree
			}
		}
		t = next
	}
	return t
}

// has says whether there is a value.
func (t tree) has() bool { return t.n != nil }

// inside are the documents that a scalar holds, such as an entry of a ConfigMap. Lines are
// right for block scalars, which begin on the line after their key.
func (t tree) inside() ([]tree, []Problem) {
	base := 0
	if t.n != nil {
		base = t.n.Line + t.base
		if n := t.node(); n.Style != yaml.LiteralStyle && n.Style != yaml.FoldedStyle {
			base--
		}
	}
	docs, problems := parseAt(t.in, []byte(t.text()), t.path, base)
	for i := range docs {
		docs[i].object = t.object
	}
	return docs, problems
}

// decode reads the value into Go's types.
func (t tree) decode(into any) error {
	if t.n == nil {
		return nil
	}
	return t.n.Decode(into)
}

// kindOf is the apiVersion's group and the kind of an object.
func (t tree) kindOf() (group, kind string) {
	group, _, found := strings.Cut(t.get("apiVersion").text(), "/")
	if !found {
		group = ""
	}
	return group, t.get("kind").text()
}

// objectName is kind and namespace/name, for people.
func (t tree) objectName() string {
	_, kind := t.kindOf()
	name := cmp.Or(t.get("metadata", "name").text(), t.get("metadata", "generateName").text())
	if ns := t.get("metadata", "namespace").text(); ns != "" {
		name = ns + "/" + name
	}
	return kind + "/" + name
}
