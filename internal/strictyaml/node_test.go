package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/strictyaml"
)

func documents(text string) (docs []strictyaml.Node, problems []string) {
	docs, list := strictyaml.Documents("f", []byte(text), true)
	for _, p := range list {
		problems = append(problems, p.Error())
	}
	return docs, problems
}

// TestNodeProblems: what cannot be read is named by file, line and field.
func TestNodeProblems(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Trim(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	for text, want := range map[string]string{
		"a: [":                      "f:1: not YAML: ",
		"a: 1\nb:\n  c: 1\n  c: 2":  "f:4: b.c: is there twice",
		"a: [{b: 1}, {b: 2, b: 3}]": "f:1: a[1].b: is there twice",
		"? {a: 1}\n: 2":             "f:1: a key that is not a word",
		"a: 1e999":                  "f:1: a: 1e999: an exponent of at most 2 digits",
		"a: &a [*a]":                "f:1: a", // by the parser or by depth
		strings.Repeat("[", 300):    "f:1: not YAML",
		strings.Repeat("{a: ", 250) + "1" + strings.Repeat("}", 250): "f:1: a.a.a",
		bomb: "f:",
	} {
		if _, problems := documents(text); len(problems) == 0 || !strings.HasPrefix(problems[0], want) && !strings.Contains(problems[0], "anchor") {
			t.Errorf("%.60q: %v, want %s", text, problems, want)
		}
	}
}

// TestNodePlaces: nodes know their lines and fields, those of documents inside others too.
func TestNodePlaces(t *testing.T) {
	docs, problems := documents(`base: &base {x: 1, y: 2}
all:
  <<: *base
  y: 3
list:
- name: a
- name: b
---
data:
  conf: |
    one: 1
    two: [1, 2]
`)
	if len(problems) > 0 || len(docs) != 2 {
		t.Fatalf("%d documents, %v", len(docs), problems)
	}
	var have []string
	say := func(n strictyaml.Node) {
		have = append(have, fmt.Sprintf("%d %s=%s", n.Line(), n.Path, n.Text()))
	}
	for _, e := range docs[0].Get("all").Entries() {
		say(e.Node)
	}
	for _, i := range docs[0].Get("list").Items() {
		say(i.Get("name"))
	}
	say(docs[0].Get("no", "where"))
	inner, bad := docs[1].Get("data", "conf").Inside()
	if len(bad) > 0 || len(inner) != 1 {
		t.Fatalf("inside: %v", bad)
	}
	say(inner[0].Get("two").Items()[1])
	want := []string{"1 all.x=1", "4 all.y=3", "6 list[0].name=a", "7 list[1].name=b", "0 no.where=", "12 data.conf.two[1]=2"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	objects, _ := strictyaml.Documents("pod", []byte("a: 1"), false)
	if p := objects[0].Get("a").Problem("wrong"); p.Error() != "pod: a: wrong" {
		t.Error(p)
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte("a: &x [1, {b: *x}]\n<<: *x\n---\n- c"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		docs, _ := strictyaml.Documents("f", data, true)
		var visit func(n strictyaml.Node)
		visit = func(n strictyaml.Node) {
			_, _ = n.Text(), n.Line()
			for _, e := range n.Entries() {
				visit(e.Node)
			}
			for _, i := range n.Items() {
				visit(i)
			}
			_, _ = n.Inside()
		}
		for _, d := range docs {
			visit(d)
		}
	})
}
