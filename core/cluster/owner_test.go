package cluster_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writers are the methods that change a ledger, a planner or a tree of queues.
var writers = map[string][]string{
	"Ledger":  {"Put", "Drop", "Forget", "SetNode", "RemoveNode", "SetTelemetry", "Begin"},
	"Planner": {"Arrive", "Restore", "Know"},
	"Tree":    {"Submit", "Remove", "Charge", "Shrink", "SetQueues", "SetQuotas", "SetTotal", "Elapse", "Restore", "Forget"},
}

// TestOneWriter: the parts around this package read its ledger, planner and tree, and change
// them through it alone. Offers of the tree are the exception: they are made to be placed.
func TestOneWriter(t *testing.T) {
	parts, err := filepath.Glob("../*")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, part := range parts {
		if !slices.Contains([]string{"ground", "reserve", "release", "preempt", "answer", "engine"}, filepath.Base(part)) {
			continue
		}
		files, err := os.ReadDir(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(part, f.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				outer, ok := n.(*ast.SelectorExpr) // x.Ledger().Put
				if !ok {
					return true
				}
				call, ok := outer.X.(*ast.CallExpr)
				if !ok {
					return true
				}
				if inner, ok := call.Fun.(*ast.SelectorExpr); ok && writers[inner.Sel.Name] != nil {
					calls++
					if slices.Contains(writers[inner.Sel.Name], outer.Sel.Name) {
						t.Errorf("%s: %s().%s changes what core/cluster owns: use one of its methods, or a Txn", set.Position(n.Pos()), inner.Sel.Name, outer.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if calls < 50 {
		t.Fatalf("only %d calls were looked at", calls)
	}
}
