package archtest

import (
	"fmt"
	"path/filepath"
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
	if testing.Verbose() {
		fmt.Println("methods  limit  type")
	}
	for i, c := range counts {
		limit := MethodLimit(c.Type[:strings.LastIndexByte(c.Type, '.')])
		if c.Methods > limit {
			t.Errorf("%s has %d methods, and %d are allowed: divide it by the state that the methods write", c.Type, c.Methods, limit)
		}
		if testing.Verbose() && i < 25 {
			fmt.Printf("%7d  %5d  %s\n", c.Methods, limit, c.Type)
		}
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
