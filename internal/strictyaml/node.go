package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Limits on what is read, far above what people write.
const (
	maxInput = 32 << 20
	maxDepth = 200
	maxNodes = 2_000_000
)

// Node is a value of a document with its place. The zero value is one that is not there.
type Node struct {
	// Path names the field: tiers[0].plugins.
	Path string
	// Part is for the caller: what a node is part of. Nodes below have it, too.
	Part string
	file string
	// base is added to lines, of a document inside another. unnumbered: it is not from a file.
	base       int
	unnumbered bool
	key, n     *yaml.Node // key is that of an entry of a mapping
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key string
	Node
}

// Documents are the documents of a text that are not empty. file is what problems call it;
// numbered is false for what is no file, so that lines say nothing.
func Documents(file string, data []byte, numbered bool) ([]Node, []Problem) {
	return Node{file: file, unnumbered: !numbered}.parse(data)
}

// parse reads documents at the place of a node.
func (n Node) parse(data []byte) (docs []Node, problems []Problem) {
	if len(data) > maxInput {
		return nil, []Problem{n.Problem("%d MiB, at most %d", len(data)>>20, maxInput>>20)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, problems
		}
		if err != nil {
			line, text := syntax(err)
			n.key, n.n = nil, &yaml.Node{Line: line}
			return docs, append(problems, n.Problem("not YAML: %s", text))
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		d := n
		d.key, d.n = nil, doc.Content[0]
		w := walk{budget: maxNodes}
		if !w.check(d, 0) {
			return docs, append(problems, w.problems...)
		}
		docs, problems = append(docs, d), append(problems, w.problems...)
	}
}

// walk looks at a whole document once.
type walk struct {
	budget   int
	problems []Problem
}

// hugeNumber is a number whose exponent takes readers of quantities minutes.
var hugeNumber = regexp.MustCompile(`^[0-9.+-]+[eE][+-]?[0-9]{3,}$`)

// check refuses documents that are too deep or too large once aliases are followed: false.
// Keys that are there twice are problems of documents that are read.
func (w *walk) check(n Node, depth int) bool {
	fail := func(format string, args ...any) bool {
		w.problems = append(w.problems, n.Problem(format, args...))
		return false
	}
	w.budget--
	switch {
	case w.budget < 0:
		return fail("more than %d values", maxNodes)
	case depth > maxDepth:
		return fail("nested more than %d deep", maxDepth)
	case n.n.Kind == yaml.AliasNode:
		n.n = n.n.Alias
		return w.check(n, depth+1)
	case n.n.Kind == yaml.ScalarNode && hugeNumber.MatchString(n.n.Value):
		return fail("%.40s: an exponent of at most 2 digits", n.n.Value)
	}
	seen := map[string]bool{}
	for i, c := range n.n.Content {
		below := n
		below.key, below.n = nil, c
		switch {
		case n.n.Kind != yaml.MappingNode:
			below.Path = fmt.Sprintf("%s[%d]", n.Path, i)
		case i%2 == 1:
			below.Path = Join(n.Path, n.n.Content[i-1].Value)
		case c.Kind != yaml.ScalarNode:
			return fail("a key that is not a word")
		default:
			if seen[c.Value] {
				below.Path = Join(n.Path, c.Value)
				w.problems = append(w.problems, below.Problem("is there twice"))
			}
			seen[c.Value] = true
			continue
		}
		if !w.check(below, depth+1) {
			return false
		}
	}
	return true
}

// value is what a node stands for, behind aliases; nil without one.
func (n Node) value() *yaml.Node {
	if n.n == nil {
		return nil
	}
	return Follow(n.n)
}

// File is the name of the input.
func (n Node) File() string { return n.file }

// Line is the line of the value, with its key where it has one; 0 where lines say nothing.
func (n Node) Line() int {
	switch {
	case n.unnumbered || n.n == nil:
		return 0
	case n.key != nil:
		return n.key.Line + n.base
	}
	return n.n.Line + n.base
}

// Problem is a mistake at the node.
func (n Node) Problem(format string, args ...any) Problem {
	return Problem{File: n.file, Line: n.Line(), Field: n.Path, Text: fmt.Sprintf(format, args...)}
}

// Named is the node under the name of another field, for messages.
func (n Node) Named(path string) Node {
	n.Path = path
	return n
}

// Below is the node under the name of a field below it.
func (n Node) Below(key string) Node { return n.Named(Join(n.Path, key)) }

// is says whether there is a value of a kind.
func (n Node) is(kind yaml.Kind) bool { v := n.value(); return v != nil && v.Kind == kind }

// Has says whether there is a value, IsNull whether there is none or null.
func (n Node) Has() bool      { return n.n != nil }
func (n Node) IsNull() bool   { return n.n == nil || null(n.value()) }
func (n Node) IsMap() bool    { return n.is(yaml.MappingNode) }
func (n Node) IsList() bool   { return n.is(yaml.SequenceNode) }
func (n Node) IsScalar() bool { return n.is(yaml.ScalarNode) }

// Text is a scalar as it is written; empty for others.
func (n Node) Text() string {
	if !n.IsScalar() || n.IsNull() {
		return ""
	}
	return n.value().Value
}

// Decode reads the value into Go's types.
func (n Node) Decode(into any) error {
	if n.n == nil {
		return nil
	}
	return n.n.Decode(into)
}

// Entries are the keys of a mapping in their order, each once, merge keys (<<) followed; none of others.
func (n Node) Entries() []Entry {
	if !n.IsMap() {
		return nil
	}
	content := n.value().Content
	var out []Entry
	at := map[string]int{}
	add := func(e Entry, over bool) {
		if i, there := at[e.Key]; !there {
			at[e.Key] = len(out)
			out = append(out, e)
		} else if over {
			out[i] = e
		}
	}
	for i := 0; i+1 < len(content); i += 2 {
		k, below := content[i], n
		below.key, below.n = k, content[i+1]
		if k.Tag == "!!merge" {
			for _, e := range below.Entries() {
				add(e, false)
			}
			continue
		}
		add(Entry{Key: k.Value, Node: below.Below(k.Value)}, true)
	}
	return out
}

// Items are the entries of a list; none of others.
func (n Node) Items() []Node {
	if !n.IsList() {
		return nil
	}
	var out []Node
	for i, c := range n.value().Content {
		below := n.Named(fmt.Sprintf("%s[%d]", n.Path, i))
		below.key, below.n = nil, c
		out = append(out, below)
	}
	return out
}

// Get is the value at a path of keys; one that is not there has its path all the same.
func (n Node) Get(keys ...string) Node {
	for _, key := range keys {
		next := n.Below(key)
		next.key, next.n = nil, nil
		for _, e := range n.Entries() {
			if e.Key == key {
				next = e.Node
			}
		}
		n = next
	}
	return n
}

// Inside are the documents that a scalar holds, such as an entry of a ConfigMap. Lines are
// right for block scalars, which begin on the line after their key.
func (n Node) Inside() ([]Node, []Problem) {
	inner := n
	if inner.base = n.Line(); n.n != nil {
		if v := n.value(); v.Style != yaml.LiteralStyle && v.Style != yaml.FoldedStyle {
			inner.base--
		}
	}
	return inner.parse([]byte(n.Text()))
}
