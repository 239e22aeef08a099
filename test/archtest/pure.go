package archtest

import (
	"go/ast"
	"go/token"
)

// timeValues is what core may use of package time: types and units. The rest
// reads a clock, waits for one or knows a time zone.
func timeValues() map[string]bool {
	return map[string]bool{
		"Duration": true, "Time": true,
		"Unix":       true, // a function of its argument
		"Nanosecond": true, "Microsecond": true, "Millisecond": true, "Second": true, "Minute": true, "Hour": true,
	}
}

// checkPure reports what a pure package may not do: read a clock, start a
// goroutine, use a channel, or keep state outside its values. Same input, same
// output is the promise; every one of these breaks it.
func checkPure(f *ast.File, report func(n ast.Node, format string, args ...any)) {
	clock := localName(f, "time")
	for _, imp := range f.Imports {
		if imp.Name != nil && imp.Name.Name == "." {
			report(imp, "dot import: the reader and this test must see whose name it is")
		}
	}
	values := timeValues()
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && !values[n.Sel.Name] {
				report(n, "time.%s: core has no clock; take now as an argument (types and units of package time are fine)", n.Sel.Name)
			}
		case *ast.GoStmt:
			report(n, "go statement: core starts no goroutine; fan-out is the caller's")
		case *ast.ChanType:
			report(n, "channel: core is called, it does not communicate")
		}
		return true
	})
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				checkVars(d, report)
			}
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				report(d, "func init: core has nothing to prepare; build the value where it is used")
			}
		}
	}
}

// checkVars reports package variables that are state. Errors, tables and
// interface assertions are not.
func checkVars(d *ast.GenDecl, report func(n ast.Node, format string, args ...any)) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if name.Name == "_" {
				continue
			}
			if i < len(v.Values) && (isError(v.Values[i]) || isTable(v.Values[i])) {
				continue
			}
			report(name, "var %s: core keeps no state outside its values; only errors (errors.New, fmt.Errorf) and tables (literals without functions) may be package variables", name.Name)
		}
	}
}

// isError recognises errors.New(...) and fmt.Errorf(...).
func isError(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && (pkg.Name == "errors" && sel.Sel.Name == "New" || pkg.Name == "fmt" && sel.Sel.Name == "Errorf")
}

// isTable recognises a composite literal that holds no function and no pointer,
// so that reading it is all one can do.
func isTable(e ast.Expr) bool {
	if _, ok := e.(*ast.CompositeLit); !ok {
		return false
	}
	table := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.FuncType, *ast.StarExpr:
			table = false
		case *ast.UnaryExpr:
			table = table && n.Op != token.AND
		}
		return table
	})
	return table
}

// localName is what the file calls the package it imports from path; empty when
// it does not import it.
func localName(f *ast.File, path string) string {
	for _, imp := range f.Imports {
		if imp.Path.Value != `"`+path+`"` {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return path
	}
	return ""
}
