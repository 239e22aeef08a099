package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page is what the code says.
func TestPage(t *testing.T) {
	written, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), page()); diff != "" {
		t.Errorf("docs/reference/reasons.md is out of date; go run ./hack/reasonsdoc docs/reference/reasons.md (-page +code):\n%s", diff)
	}
}
