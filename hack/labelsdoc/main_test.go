package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page is what the code says.
func TestPage(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := page(filepath.Join(root, "api", "names", "names.go"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(root, "docs", "reference", "labels.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), want); diff != "" {
		t.Errorf("docs/reference/labels.md is out of date; go run ./hack/labelsdoc api/names/names.go docs/reference/labels.md (-page +code):\n%s", diff)
	}
	for _, word := range []string{"`tangram.dev/devices` | annotation", "`tangram.dev/gang` | label", "`nvidia.com/gpu` | resource", "`tangram.dev/isolated` | taint"} {
		if !strings.Contains(want, word) {
			t.Errorf("the page has no row %s", word)
		}
	}
}
