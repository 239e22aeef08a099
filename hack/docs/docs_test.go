package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/cli"
	"github.com/tangram-dev/tangram/internal/kube/query"
	labcli "github.com/tangram-dev/tangram/lab/cli"
)

var root = filepath.Join("..", "..")

// Each page is what the code says, and has what readers look for there.
func TestPages(t *testing.T) {
	has := map[string][]string{
		"labels.md": {"`tangram.dev/devices` | annotation", "`tangram.dev/gang` | label", "`nvidia.com/gpu` | resource", "`tangram.dev/isolated` | taint"},
		"crds.md":   {"## GPUNode\n", "## Job\n", "## PodGroup\n", "## Queue\n", "## Command\n"},
	}
	for _, x := range pages {
		t.Run(x.file, func(t *testing.T) {
			var p page
			if err := x.write(&p, root); err != nil {
				t.Fatal(err)
			}
			written, err := os.ReadFile(filepath.Join(root, "docs", "reference", x.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(written), p.String()); diff != "" {
				t.Errorf("docs/reference/%s is out of date; go run ./hack/docs . docs/reference (-page +code):\n%s", x.file, diff)
			}
			for _, text := range has[x.file] {
				if !strings.Contains(p.String(), text) {
					t.Errorf("the page has no %s", text)
				}
			}
		})
	}
}

// No metric is described twice.
func TestMetricNames(t *testing.T) {
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

// The comment of api/query has a line for each of the server's questions, and a type
// without a comment would be a gap in the page.
func TestQueryIsDocumented(t *testing.T) {
	s, err := read(root)
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
	if len(s.types) < 20 {
		t.Fatalf("%d types", len(s.types))
	}
	for _, typ := range s.types {
		if name := typ.Name.Name; !strings.HasPrefix(s.docs[name], name) {
			t.Errorf("type %s: comment %q", name, s.docs[name])
		}
	}
}

// The guide has a line for every command.
func TestGuideNamesCommands(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guides", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cli.New(labcli.Commands()...).Commands() {
		if c.GroupID != "" && !bytes.Contains(guide, []byte("`"+c.Name()+"`")) && !bytes.Contains(guide, []byte("tangram "+c.Name())) {
			t.Errorf("the guide does not name %s", c.Name())
		}
	}
}
