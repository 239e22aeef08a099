package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
)

const labelsHead = `# Labels, annotations and resources

<!-- Written by make generate from api/names; do not edit. -->

The words by which Tangram and other programs understand each other: what the constants of
` + "[`api/names`](../../api/names/names.go)" + ` are. A word is one of Tangram's if it begins with
` + "`tangram.dev/`" + `; all others belong to other projects and are read, and where it says so written,
as those projects do. How GPUs are asked for in other systems' words is in
[words for a GPU](../guides/words.md); who may use which word is in [tenants](../guides/tenants.md).
`

// writeLabels describes every label, annotation and resource that api/names has a constant
// for, with its doc comment: a table for each group of constants.
func writeLabels(p *page, root string) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, filepath.Join(root, "api", "names", "names.go"), nil, parser.ParseComments)
	if err != nil {
		return err
	}
	values, err := constants(files, f)
	if err != nil {
		return err
	}
	p.WriteString(labelsHead)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if rows := labelRows(g, values); len(rows) > 0 {
			title, rest := heading(g)
			p.printf("\n## %s\n\n%s", title, rest)
			p.table("word", "is", "")
			for _, r := range rows {
				p.row(r...)
			}
		}
	}
	return nil
}

// constants are the values of the file's constants by their Go names.
func constants(files *token.FileSet, f *ast.File) (map[string]string, error) {
	var config types.Config // the package imports nothing
	checked, err := config.Check("names", files, []*ast.File{f}, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, name := range checked.Scope().Names() {
		if c, ok := checked.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() == constant.String {
			values[name] = constant.StringVal(c.Val())
		}
	}
	return values, nil
}

// labelRows are the rows of a group. A comment that names several constants stands above the
// first of them.
func labelRows(g *ast.GenDecl, values map[string]string) (rows [][]string) {
	above := ""
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		name := v.Names[0].Name
		switch {
		case v.Doc != nil:
			above = oneLine(v.Doc.Text())
		case !strings.Contains(above, name):
			above = ""
		}
		if kind := kindOf(name); kind != "" {
			text := strings.TrimSpace(above + " " + oneLine(v.Comment.Text()))
			rows = append(rows, []string{code(values[name]), kind, plain(text, values)})
		}
	}
	return rows
}

// kindOf is what a constant is, by its name; empty for what is none of this page's.
func kindOf(name string) string {
	for _, k := range []struct{ prefix, kind string }{
		{"Annotation", "annotation"}, {"Label", "label"}, {"Taint", "taint"},
		{"Resource", "resource"}, {"Gate", "scheduling gate"},
	} {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	return ""
}

// heading is a group's title, and what its comment says beyond it.
func heading(g *ast.GenDecl) (title, rest string) {
	text := oneLine(g.Doc.Text())
	title, rest, _ = strings.Cut(text, ". ")
	if before, after, ok := strings.Cut(title, ": "); ok {
		title, rest = before, strings.TrimSpace(strings.TrimSuffix(after, ".")+". "+rest)
	}
	if before, after, ok := strings.Cut(title, " (docs/"); ok { // (docs/guides/x.md)
		page, _, _ := strings.Cut(after, ")")
		title, rest = before, strings.TrimSpace("See [the page](../"+page+"). "+rest)
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		rest = strings.ToUpper(rest[:1]) + rest[1:] + "\n\n"
	}
	return strings.TrimSuffix(title, "."), rest
}

var aPage = regexp.MustCompile(`docs/([a-z/-]+\.md)`)

var goName = regexp.MustCompile(`\b(?:Annotation|Label|Taint|Resource|Gate|Reason)[A-Z]\w*\b`)

// plain is a comment for people who do not read Go: constants are named by their values.
func plain(text string, values map[string]string) string {
	text = goName.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := values[name]; ok {
			return code(v)
		}
		return name
	})
	return aPage.ReplaceAllString(text, "[$1](../$1)")
}
