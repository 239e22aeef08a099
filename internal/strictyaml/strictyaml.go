package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one mistake in a file.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0 where lines say nothing
	// Field is the path, such as pools[1].gpu.count; empty for the file as a whole.
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

// Reader reads one file. It is for one goroutine.
type Reader struct {
	file     string
	problems []Problem
}

// Field reads one field of an object; Fields are all that an object may have, by name.
type (
	Field  func(n *yaml.Node, path string)
	Fields map[string]Field
)

// maxSize is far above what people write.
const maxSize = 1 << 20

var syntaxError = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s*)?line (\d+): (.*)`)

// Parse reads the only document of a file; name is what messages call it. The root is nil for
// a file without content, and after a problem.
func Parse(name string, data []byte) (*Reader, *yaml.Node) {
	r := &Reader{file: name}
	if len(data) > maxSize {
		r.Fail(nil, "", "%d bytes, want at most 1 MiB", len(data))
		return r, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, another yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return r, nil
	}
	if err == nil {
		if err = decoder.Decode(&another); errors.Is(err, io.EOF) {
			return r, Follow(doc.Content[0])
		} else if err == nil {
			r.Fail(&another, "", "a second document, want one")
			return r, nil
		}
	}
	line, text := syntax(err)
	r.Fail(&yaml.Node{Line: line}, "", "not YAML: %s", text)
	return r, nil
}

// syntax is where the parser stopped, and why.
func syntax(err error) (line int, text string) {
	if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the expression
		return line, m[2]
	}
	return 1, strings.TrimPrefix(err.Error(), "yaml: ")
}

// Fail notes a mistake at a node, or at the beginning of the file when it is nil.
func (r *Reader) Fail(n *yaml.Node, path, format string, args ...any) {
	line := 1
	if n != nil {
		line = max(line, n.Line)
	}
	r.problems = append(r.problems, Problem{r.file, line, path, fmt.Sprintf(format, args...)})
}

// Problems are the mistakes so far, in the order in which they were found.
func (r *Reader) Problems() []Problem { return r.problems }

// Err is all mistakes, one in a line; nil when there are none.
func (r *Reader) Err() error {
	var errs []error
	for _, p := range r.problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// Object reads a mapping and returns the values that are there, by name.
func (r *Reader) Object(n *yaml.Node, path string, fields Fields) map[string]*yaml.Node {
	present := map[string]*yaml.Node{}
	n = Follow(n)
	if n.Kind != yaml.MappingNode {
		if !null(n) {
			r.Fail(n, path, "%s, want an object with the fields %s", Describe(n), fields.names())
		}
		return present
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], Follow(n.Content[i+1])
		at := Join(path, key.Value)
		read, known := fields[key.Value]
		switch {
		case !known:
			r.Fail(key, Clip(at), "unknown field%s", fields.hint(key.Value))
		case seen[key.Value]:
			r.Fail(key, at, "is there twice")
		case !null(value):
			present[key.Value] = value
			read(value, at)
		}
		seen[key.Value] = true
	}
	return present
}

// List calls item for each entry of a sequence of at most so many.
func (r *Reader) List(n *yaml.Node, path string, most int, item Field) {
	n = Follow(n)
	switch {
	case n.Kind != yaml.SequenceNode:
		r.Fail(n, path, "%s, want a list", Describe(n))
	case len(n.Content) > most:
		r.Fail(n, path, "%d entries, want at most %d", len(n.Content), most)
	default:
		for i, c := range n.Content {
			item(Follow(c), fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// Text reads a string.
func (r *Reader) Text(n *yaml.Node, path string) (text string, ok bool) {
	n = Follow(n)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		r.Fail(n, path, "%s, want a text", Describe(n))
		return "", false
	}
	return n.Value, true
}

// Bool reads true or false.
func (r *Reader) Bool(n *yaml.Node, path string) (v bool) {
	n = Follow(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && n.Decode(&v) == nil {
		return v
	}
	more := ""
	if v, err := strconv.ParseBool(n.Value); err == nil && n.Kind == yaml.ScalarNode {
		more = fmt.Sprintf("; write %v without quotes", v)
	}
	r.Fail(n, path, "%s, want true or false%s", Describe(n), more)
	return false
}

// Int reads a whole number in a range; why is added to the message about the range.
func (r *Reader) Int(n *yaml.Node, path string, least, most int, why string) (v int, ok bool) {
	n = Follow(n)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil:
		r.Fail(n, path, "%s, want a number", Describe(n))
	case v < least:
		r.Fail(n, path, "%d, want at least %d%s", v, least, why)
	case v > most:
		r.Fail(n, path, "%d, want at most %d%s", v, most, why)
	default:
		return v, true
	}
	return 0, false
}

// Follow goes from an alias to what it stands for. An anchor cannot hold itself: a few steps are enough.
func Follow(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 10; i++ {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Join is the path of a field of an object.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Describe says what a node is, for a message.
func Describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!str":
		return fmt.Sprintf("the text %q", Clip(n.Value))
	}
	return Clip(n.Value)
}

// Clip bounds what a message repeats of a file.
func Clip(text string) string {
	const longest = 80
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}

func (f Fields) names() string {
	return strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}

// hint is the field that was probably meant, else all of them.
func (f Fields) hint(name string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if plain(k) == plain(name) || Distance(plain(k), plain(name)) <= 2 {
			return "; is " + k + " meant?"
		}
	}
	return "; the fields here are " + f.names()
}

// Distance is the number of letters to add, drop or change between two names; long ones are not compared.
func Distance(a, b string) int {
	const longest = 128
	if len(a) > longest || len(b) > longest {
		return longest
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
