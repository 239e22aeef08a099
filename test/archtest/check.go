package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// Violation is one broken rule.
type Violation struct {
	File string // relative to the root, with slashes
	Line int
	Text string // what is wrong, and the reason of the rule
}

func (v Violation) String() string { return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Text) }

// Rule is what a tree is checked against.
type Rule struct {
	Module  string // the import path of the root
	Rows    []Row
	Guarded []Guard
}

// Check reads every Go file below root and returns what breaks the rule, in the
// order of files and lines. Folders the go command ignores are skipped, and so
// are nested modules, which are separate programs.
func (r Rule) Check(root string) ([]Violation, error) {
	files, err := sources(root)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, f := range files {
		vs, err := r.checkFile(f)
		if err != nil {
			return nil, err
		}
		found = append(found, vs...)
	}
	return found, nil
}

func (r Rule) checkFile(f source) ([]Violation, error) {
	var found []Violation
	report := func(n ast.Node, format string, args ...any) {
		line := f.Set.Position(n.Pos()).Line
		found = append(found, Violation{File: f.File, Line: line, Text: fmt.Sprintf(format, args...)})
	}

	row, ok := r.row(f.Folder)
	if !ok {
		report(f.Syntax.Name, "folder %s has no row in test/archtest/table.go: say what it may import, and why", f.Folder)
		return found, nil
	}
	for _, imp := range f.Syntax.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", f.File, imp.Path.Value, err)
		}
		if why, ok := r.allowed(row, p, f.Test, f.Folder); !ok {
			report(imp, "imports %q: not allowed in %s (%s)", p, row.Folder, why)
		}
	}
	if row.Pure && !f.Test {
		checkPure(f.Syntax, report)
	}
	return found, nil
}

// row returns the longest row that covers the folder.
func (r Rule) row(folder string) (best Row, ok bool) {
	for _, row := range r.Rows {
		if matches(row.Folder, folder) && len(row.Folder) >= len(best.Folder) {
			best, ok = row, true
		}
	}
	return best, ok
}

// allowed says whether a file of folder, under row, may import p; if not, why.
func (r Rule) allowed(row Row, p string, test bool, folder string) (why string, ok bool) {
	if p == r.Module || strings.HasPrefix(p, r.Module+"/") {
		p = "." + strings.TrimPrefix(p, r.Module)
	}
	if test && p == "./"+folder {
		return "", true // an external test imports the package it tests
	}
	may := row.May
	if test {
		may = slices.Concat(may, row.Tests)
	}
	i := slices.IndexFunc(may, func(pattern string) bool { return covers(pattern, p) })
	if i < 0 {
		return row.Why, false
	}
	for _, g := range r.Guarded {
		inside := func(pattern string) bool { return matches(g.Package+"/...", strings.TrimSuffix(pattern, "/...")) }
		if inside(p) && !slices.ContainsFunc(may, inside) {
			return g.Why, false
		}
	}
	return "", true
}

// covers says whether a pattern of the table lets an import in.
func covers(pattern, p string) bool {
	if pattern == "std" {
		return isStd(p)
	}
	return matches(pattern, p)
}

// matches is the go command's pattern matching, as far as the table needs it.
func matches(pattern, p string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == above || strings.HasPrefix(p, above+"/")
	}
	return p == pattern
}

// isStd knows the standard library the way the go command does: the first
// element of any other path has a dot. "C" is cgo, which no row allows.
func isStd(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".") && p != "C"
}
