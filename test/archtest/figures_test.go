package archtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// TestMethods holds the limit of methods per type. `make methods` shows the largest types.
func TestMethods(t *testing.T) {
	counts, err := CountMethods(root)
	if err != nil {
		t.Fatal(err)
	}
	exceptions := MethodExceptions()
	if testing.Verbose() {
		fmt.Println("methods  limit  type")
	}
	for i, c := range counts {
		folder := c.Type[:strings.LastIndexByte(c.Type, '.')]
		limit := MethodLimit(folder)
		ceiling, excepted := exceptions[c.Type]
		delete(exceptions, c.Type)
		note := ""
		switch {
		case excepted && c.Methods <= limit:
			t.Errorf("%s has %d methods, and %d are allowed: remove its row from MethodExceptions", c.Type, c.Methods, limit)
		case excepted && c.Methods > ceiling:
			t.Errorf("%s has %d methods; its exception allows %d, which may only fall", c.Type, c.Methods, ceiling)
		case excepted:
			note = fmt.Sprintf(" (exception, at most %d)", ceiling)
		case c.Methods > limit:
			t.Errorf("%s has %d methods, and %d are allowed: divide it by the state that the methods write", c.Type, c.Methods, limit)
		}
		if testing.Verbose() && (i < 25 || note != "") {
			fmt.Printf("%7d  %5d  %s%s\n", c.Methods, limit, c.Type, note)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		t.Errorf("%s has no methods or is gone: remove its row from MethodExceptions", name)
	}
}

// TestLines names every top folder that has Go files. `make lines` shows the sums.
func TestLines(t *testing.T) {
	counts, err := CountLines(root)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		fmt.Println("  code   tests  lines of Go")
		for _, p := range Parts() {
			var sum LineCount
			for _, folder := range p.Folders {
				sum.Code += counts[folder].Code
				sum.Tests += counts[folder].Tests
			}
			fmt.Printf("%6d  %6d  %s (%s)\n", sum.Code, sum.Tests, p.Name, strings.Join(p.Folders, ", "))
		}
	}
	for _, folder := range unnamed(counts) {
		t.Errorf("folder %s belongs to no part of the repository: name it in Parts", folder)
	}
}
