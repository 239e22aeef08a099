package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page is what the definitions say.
func TestPage(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := page(filepath.Join(root, "config", "crd"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(root, "docs", "reference", "crds.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), want); diff != "" {
		t.Errorf("docs/reference/crds.md is out of date; go run ./hack/crdsdoc config/crd docs/reference/crds.md (-page +definitions):\n%s", diff)
	}
	for _, head := range []string{"## GPUNode", "## Job", "## PodGroup", "## Queue", "## Command"} {
		if !strings.Contains(want, head+"\n") {
			t.Errorf("the page has no heading %s", head)
		}
	}
}
