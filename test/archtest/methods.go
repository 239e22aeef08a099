package archtest

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// MethodCount says how many methods one type has.
type MethodCount struct {
	Type    string // folder and name: "core/engine.Engine"
	Methods int
}

// MethodLimit is how many methods a type of a folder may have: a type with more has several
// owners for its state, and a reader cannot say which method writes which field.
func MethodLimit(folder string) int {
	switch {
	case matches("core/...", folder):
		return 40
	case matches("internal/kube/...", folder):
		return 50
	default:
		return 60
	}
}

// CountMethods counts the methods of every type below root, most first. Not counted are
// methods that a type gets by embedding another, and those that a test adds to a type of the
// code; methods of one name in files for several platforms are one method.
func CountMethods(root string) ([]MethodCount, error) {
	files, err := sources(root)
	if err != nil {
		return nil, err
	}
	code := map[string]bool{} // types that are declared outside of tests
	for _, f := range files {
		for _, d := range f.Syntax.Decls {
			if types, ok := d.(*ast.GenDecl); ok && types.Tok == token.TYPE && !f.Test {
				for _, spec := range types.Specs {
					code[f.Folder+"."+spec.(*ast.TypeSpec).Name.Name] = true
				}
			}
		}
	}
	names := map[string]map[string]bool{}
	for _, f := range files {
		for _, d := range f.Syntax.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || method.Recv == nil {
				continue
			}
			key := f.Folder + "." + receiver(method.Recv.List[0].Type)
			if f.Test && code[key] {
				continue
			}
			if names[key] == nil {
				names[key] = map[string]bool{}
			}
			names[key][method.Name.Name] = true
		}
	}
	var out []MethodCount
	for key, methods := range names {
		out = append(out, MethodCount{Type: key, Methods: len(methods)})
	}
	slices.SortFunc(out, func(a, b MethodCount) int {
		return cmp.Or(cmp.Compare(b.Methods, a.Methods), strings.Compare(a.Type, b.Type))
	})
	return out, nil
}

// receiver is the name of a receiver's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// LineCount is the number of lines of the Go files of a part of the repository.
type LineCount struct{ Code, Tests int }

// CountLines counts lines by top folder. Generated files count: they are read and compiled
// like the others.
func CountLines(root string) (map[string]LineCount, error) {
	files, err := sources(root)
	if err != nil {
		return nil, err
	}
	out := map[string]LineCount{}
	for _, f := range files {
		top, _, _ := strings.Cut(f.File, "/")
		n := out[top]
		if f.Test {
			n.Tests += f.Lines
		} else {
			n.Code += f.Lines
		}
		out[top] = n
	}
	return out, nil
}

// Parts are the top folders by what they are for. The product is what a cluster or its
// users run; the laboratory is what measures, simulates and demonstrates it.
func Parts() []Part {
	return []Part{
		{"product", []string{"core", "api", "internal", "cmd"}},
		{"laboratory", []string{"lab"}},
		{"tests", []string{"test"}},
		{"tools and files", []string{"hack", "config", "examples", "monitoring"}},
	}
}

// Part is one part of the repository.
type Part struct {
	Name    string
	Folders []string
}

// unnamed are the top folders with Go files that no part names.
func unnamed(counts map[string]LineCount) []string {
	for _, p := range Parts() {
		for _, folder := range p.Folders {
			delete(counts, folder)
		}
	}
	return slices.Sorted(maps.Keys(counts))
}
