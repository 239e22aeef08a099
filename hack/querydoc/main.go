// Command querydoc writes docs/reference/query.md: intro.md, and the schema of the query API
// as the doc comments of api/query and the server's table of questions have it. It is a step
// of make generate.
package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/internal/kube/query"
)

//go:embed intro.md
var intro string

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: querydoc api/query FILE")
		os.Exit(2)
	}
	text, err := page(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// source is the package as it is documented.
type source struct {
	files *token.FileSet
	// doc is the package's own comment.
	doc string
	// types are the struct types in the order of the files, consts the groups of constants.
	types  []*ast.TypeSpec
	docs   map[string]string
	consts []*ast.GenDecl
}

// page is the whole page.
func page(folder string) (string, error) {
	s, err := read(folder)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(intro) + "\n\n")
	s.questions(&b)
	s.schema(&b)
	s.words(&b)
	return b.String(), nil
}

// read parses the package.
func read(folder string) (*source, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{files: token.NewFileSet(), docs: map[string]string{}}
	for _, name := range names { // sorted
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.files, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if f.Doc != nil {
			s.doc += f.Doc.Text()
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			if g.Tok == token.CONST {
				s.consts = append(s.consts, g)
			}
			for _, spec := range g.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					if _, ok := t.Type.(*ast.StructType); ok {
						s.types = append(s.types, t)
						s.docs[t.Name.Name] = oneLine(g.Doc.Text())
					}
				}
			}
		}
	}
	return s, nil
}

// asked is a line of the package's comment: GET /query/v1/fleet Fleet: what there is.
var asked = regexp.MustCompile(`(?m)^\s*(GET|POST)\s+(/query/\S+)\s+(?:(\w+): )?(.*)$`)

// questions is the table of paths. Parameters are the server's.
func (s *source) questions(b *strings.Builder) {
	params := map[string][]string{}
	for _, q := range query.Table() {
		params[q.Path] = q.Params
	}
	b.WriteString("## Questions\n\n| question | parameters | answer | |\n|---|---|---|---|\n")
	for _, m := range asked.FindAllStringSubmatch(s.doc, -1) {
		list := []string{}
		for _, p := range params[m[2]] {
			list = append(list, "`"+p+"`")
		}
		answer := "-"
		if m[3] != "" {
			answer = link(m[3])
		}
		fmt.Fprintf(b, "| `%s %s` | %s | %s | %s |\n", m[1], m[2], strings.Join(list, ", "), answer, m[4])
	}
	b.WriteString("\n")
}

// schema is a table of fields for each type.
func (s *source) schema(b *strings.Builder) {
	b.WriteString("## Schema\n\nTimes are RFC 3339, durations seconds, memory MiB, GPUs thousandths of one (milli) unless a name says otherwise. A field that \"may be absent\" is left out when it is empty, false or 0. Fields are only ever added.\n\n")
	for _, t := range s.types {
		fmt.Fprintf(b, "### %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", t.Name.Name, s.docs[t.Name.Name])
		for _, f := range t.Type.(*ast.StructType).Fields.List {
			s.field(b, f)
		}
		b.WriteString("\n")
	}
}

// field is a row of a type's table.
func (s *source) field(b *strings.Builder, f *ast.Field) {
	text := oneLine(f.Doc.Text() + f.Comment.Text())
	if len(f.Names) == 0 { // embedded: its fields are the type's own
		fmt.Fprintf(b, "| | %s | the fields of it %s|\n", s.typeName(f.Type), spaced(text))
		return
	}
	tag := ""
	if f.Tag != nil {
		if raw, err := strconv.Unquote(f.Tag.Value); err == nil {
			tag = reflect.StructTag(raw).Get("json")
		}
	}
	name, options, _ := strings.Cut(tag, ",")
	if strings.Contains(options, "omitempty") {
		text = strings.TrimSpace(text + " May be absent.")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, s.typeName(f.Type), text)
}

// typeName is a field's type for people who read JSON.
func (s *source) typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return s.typeName(t.X)
	case *ast.ArrayType:
		return "array of " + s.typeName(t.Elt)
	case *ast.MapType:
		return "object of " + s.typeName(t.Value)
	case *ast.Ident:
		switch {
		case s.docs[t.Name] != "" || slices.ContainsFunc(s.types, func(o *ast.TypeSpec) bool { return o.Name.Name == t.Name }):
			return link(t.Name)
		case strings.HasPrefix(t.Name, "int") || strings.HasPrefix(t.Name, "uint"):
			return "integer"
		case strings.HasPrefix(t.Name, "float"):
			return "number"
		case t.Name == "bool":
			return "boolean"
		}
		return t.Name
	}
	var b strings.Builder
	_ = printer.Fprint(&b, s.files, e) // a strings.Builder takes everything
	if b.String() == "time.Time" {
		return "time"
	}
	return b.String()
}

// words is a table of the constants whose values are words.
func (s *source) words(b *strings.Builder) {
	b.WriteString("## Words\n")
	for _, g := range s.consts {
		rows := ""
		above := "" // a comment stands above several constants
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			if v.Doc != nil {
				above = oneLine(v.Doc.Text())
			}
			for i, name := range v.Names {
				if i >= len(v.Values) {
					continue
				}
				if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.HasPrefix(name.Name, "Path") && name.Name != "Prefix" {
					rows += fmt.Sprintf("| `%s` | %s |\n", strings.Trim(lit.Value, `"`), strings.TrimSpace(oneLine(v.Comment.Text())+" "+above))
				}
			}
		}
		if rows != "" {
			fmt.Fprintf(b, "\n%s\n\n| word | |\n|---|---|\n%s", oneLine(g.Doc.Text()), rows)
		}
	}
}

func link(name string) string { return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)) }

// oneLine is a comment as a table's cell.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// spaced is a text with a space behind it, if there is one.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text + " "
}
