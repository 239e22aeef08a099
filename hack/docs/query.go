package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/internal/kube/query"
)

//go:embed query.md
var queryHead string

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

// writeQuery describes the query API: query.md, and the schema as the doc comments of
// api/query and the server's table of questions have it.
func writeQuery(p *page, root string) error {
	s, err := read(root)
	if err != nil {
		return err
	}
	p.WriteString(strings.TrimSpace(queryHead) + "\n\n")
	s.questions(p)
	s.schema(p)
	s.words(p)
	return nil
}

// read parses api/query.
func read(root string) (*source, error) {
	names, err := filepath.Glob(filepath.Join(root, "api", "query", "*.go"))
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
func (s *source) questions(p *page) {
	params := map[string][]string{}
	for _, q := range query.Table() {
		params[q.Path] = q.Params
	}
	p.WriteString("## Questions\n\n")
	p.table("question", "parameters", "answer", "")
	for _, m := range asked.FindAllStringSubmatch(s.doc, -1) {
		var list []string
		for _, name := range params[m[2]] {
			list = append(list, code(name))
		}
		answer := "-"
		if m[3] != "" {
			answer = link(m[3])
		}
		p.row(code(m[1]+" "+m[2]), strings.Join(list, ", "), answer, m[4])
	}
	p.WriteString("\n")
}

// schema is a table of fields for each type.
func (s *source) schema(p *page) {
	p.WriteString("## Schema\n\nTimes are RFC 3339, durations seconds, memory MiB, GPUs thousandths of one (milli) unless a name says otherwise. A field that \"may be absent\" is left out when it is empty, false or 0. Fields are only ever added.\n\n")
	for _, t := range s.types {
		p.printf("### %s\n\n%s\n\n", t.Name.Name, s.docs[t.Name.Name])
		p.table("field", "type", "")
		for _, f := range t.Type.(*ast.StructType).Fields.List {
			s.field(p, f)
		}
		p.WriteString("\n")
	}
}

// field is a row of a type's table.
func (s *source) field(p *page, f *ast.Field) {
	text := oneLine(f.Doc.Text() + f.Comment.Text())
	if len(f.Names) == 0 { // embedded: its fields are the type's own
		text = strings.TrimSuffix("the fields of it: "+text, ": ")
		p.row("", s.typeName(f.Type), text)
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
	p.row(code(name), s.typeName(f.Type), text)
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
func (s *source) words(p *page) {
	p.WriteString("## Words\n")
	for _, g := range s.consts {
		var rows [][]string
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
					rows = append(rows, []string{code(strings.Trim(lit.Value, `"`)), strings.TrimSpace(oneLine(v.Comment.Text()) + " " + above)})
				}
			}
		}
		if len(rows) > 0 {
			p.printf("\n%s\n\n", oneLine(g.Doc.Text()))
			p.table("word", "")
		}
		for _, r := range rows {
			p.row(r...)
		}
	}
}

func link(name string) string { return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)) }
