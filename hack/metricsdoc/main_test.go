package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/metrictable"
)

// The page is what the code says.
func TestPage(t *testing.T) {
	written, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), metrictable.Page(tables())); diff != "" {
		t.Errorf("docs/reference/metrics.md is out of date; go run ./hack/metricsdoc docs/reference/metrics.md (-page +code):\n%s", diff)
	}
}

// No metric is described twice.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range tables() {
		for _, m := range table.Metrics {
			if seen[m.Name] {
				t.Errorf("%s is described twice", m.Name)
			}
			seen[m.Name] = true
		}
	}
}
