// Command labelsdoc writes docs/reference/labels.md: every label, annotation and resource
// that api/names has a constant for, with its doc comment. It is a step of make generate.
package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
)

const head = `# Labels, annotations and resources

<!-- Written by make generate from api/names; do not edit. -->

The words by which Tangram and other programs understand each other: what the constants of
` + "[`api/names`](../../api/names/names.go)" + ` are. A word is one of Tangram's if it begins with
` + "`tangram.dev/`" + `; all others belong to other projects and are read, and where it says so written,
as those projects do. How GPUs are asked for in other systems' words is in
[words for a GPU](../guides/words.md); who may use which word is in [tenants](../guides/tenants.md).
`

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: labelsdoc api/names/names.go FILE")
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

// page is the whole page: a table for each group of constants that has words of this page.
func page(file string) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	values, err := constants(f)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if rows := table(g, values); rows != "" {
			title, rest := heading(g)
			fmt.Fprintf(&b, "\n## %s\n\n%s| word | is | |\n|---|---|---|\n%s", title, rest, rows)
		}
	}
	return b.String(), nil
}

// constants are the values of the file's constants by their Go names.
func constants(f *ast.File) (map[string]string, error) {
	values := map[string]string{} // those before: Group + "/devices" names another one
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i >= len(v.Values) {
					return nil, fmt.Errorf("constant %s has no value of its own", name.Name)
				}
				value, err := evaluate(v.Values[i], values)
				if err != nil {
					return nil, fmt.Errorf("constant %s: %w", name.Name, err)
				}
				values[name.Name] = value
			}
		}
	}
	return values, nil
}

// table are the rows of a group. A comment that names several constants stands above the
// first of them.
func table(g *ast.GenDecl, values map[string]string) string {
	var b strings.Builder
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
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", values[name], kind, plain(text, values))
		}
	}
	return b.String()
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

// evaluate is the value of a string constant: a literal, another constant, or a sum.
func evaluate(e ast.Expr, values map[string]string) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0)), nil
	case *ast.Ident:
		return values[e.Name], nil
	case *ast.BinaryExpr:
		a, err := evaluate(e.X, values)
		if err != nil {
			return "", err
		}
		b, err := evaluate(e.Y, values)
		return a + b, err
	}
	return "", fmt.Errorf("%T is not a string constant", e)
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
			return "`" + v + "`"
		}
		return name
	})
	text = aPage.ReplaceAllString(text, "[$1](../$1)")
	return strings.ReplaceAll(text, "|", "\\|")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
