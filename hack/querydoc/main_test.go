package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/kube/query"
)

func TestPageIsUpToDate(t *testing.T) {
	want, err := page(filepath.Join("..", "..", "api", "query"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "query.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), want); diff != "" {
		t.Errorf("docs/reference/query.md is out of date; go run ./hack/querydoc api/query docs/reference/query.md (-page +code):\n%s", diff)
	}
}

// TestEveryQuestionIsDocumented: the package's comment has a line for each of the server's
// questions.
func TestEveryQuestionIsDocumented(t *testing.T) {
	s, err := read(filepath.Join("..", "..", "api", "query"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, m := range asked.FindAllStringSubmatch(s.doc, -1) {
		lines[m[2]] = m[1]
	}
	for _, q := range query.Table() {
		if lines[q.Path] != q.Method {
			t.Errorf("%s %s: the comment of api/query says %q", q.Method, q.Path, lines[q.Path])
		}
	}
}

// TestEveryTypeIsDescribed: a type without a comment is a gap in the page.
func TestEveryTypeIsDescribed(t *testing.T) {
	s, err := read(filepath.Join("..", "..", "api", "query"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.types) < 20 {
		t.Fatalf("%d types", len(s.types))
	}
	for _, typ := range s.types {
		if name := typ.Name.Name; !strings.HasPrefix(s.docs[name], name) {
			t.Errorf("type %s: comment %q", name, s.docs[name])
		}
	}
}
