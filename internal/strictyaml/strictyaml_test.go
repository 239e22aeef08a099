package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// pool is what the tests read.
type pool struct {
	name   string
	count  int
	spread bool
	racks  []string
}

func read(text string) (p pool, err error) {
	r, root := strictyaml.Parse("pool.yaml", []byte(text))
	if root == nil {
		return p, r.Err()
	}
	r.Object(root, "", strictyaml.Fields{
		"name":     func(n *yaml.Node, path string) { p.name, _ = r.Text(n, path) },
		"maxCount": func(n *yaml.Node, path string) { p.count, _ = r.Int(n, path, 1, 8, " for a pool") },
		"spread":   func(n *yaml.Node, path string) { p.spread = r.Bool(n, path) },
		"racks": func(n *yaml.Node, path string) {
			r.List(n, path, 2, func(n *yaml.Node, path string) {
				name, _ := r.Text(n, path)
				p.racks = append(p.racks, name)
			})
		},
	})
	return p, r.Err()
}

func Example() {
	_, err := read("name: a\nmaxcount: 4\nspread: \"true\"\n")
	fmt.Println(err)
	// Output:
	// pool.yaml:2: maxcount: unknown field; is maxCount meant?
	// pool.yaml:3: spread: the text "true", want true or false; write true without quotes
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"# nothing\n":                      "",
		"name: null\nracks: []\n":          "",
		"name: &a x\nracks: [*a, *a]\n":    "",
		"- a\n":                            "pool.yaml:1: a list, want an object with the fields maxCount, name, racks, spread",
		"name: [a\n":                       "pool.yaml:1: not YAML: did not find expected ',' or ']'",
		"name: a\n---\nname: b\n":          "pool.yaml:2: a second document, want one",
		"name: a\nname: b\n":               "pool.yaml:2: name: is there twice",
		"name: 1\n":                        "pool.yaml:1: name: 1, want a text",
		"maxCount: 0\n":                    "pool.yaml:1: maxCount: 0, want at least 1 for a pool",
		"maxCount: 9\n":                    "pool.yaml:1: maxCount: 9, want at most 8 for a pool",
		"maxCount: 1.5\n":                  "pool.yaml:1: maxCount: 1.5, want a number",
		"racks: a\n":                       `pool.yaml:1: racks: the text "a", want a list`,
		"racks: [a, b, c]\n":               "pool.yaml:1: racks: 3 entries, want at most 2",
		"racks:\n- a\n- {}\n":              "pool.yaml:3: racks[1]: an object, want a text",
		"colour: red\n":                    "pool.yaml:1: colour: unknown field; the fields here are maxCount, name, racks, spread",
		strings.Repeat("#", 1<<20+1):       "pool.yaml:1: 1048577 bytes, want at most 1 MiB",
		strings.Repeat("x", 100) + ": 1\n": "pool.yaml:1: " + strings.Repeat("x", 80) + "...: unknown field; the fields here are maxCount, name, racks, spread",
	} {
		_, err := read(text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q:\n got %s\nwant %s", text, got, want)
		}
	}
	p, err := read("{name: a, maxCount: 3, spread: true, racks: [r1, r2]}")
	if err != nil || p.name != "a" || p.count != 3 || !p.spread || len(p.racks) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzParse: whatever is in the file, it is read or refused, and the walk ends.
func FuzzParse(f *testing.F) {
	f.Add([]byte("racks: &a [*a]\n"))
	f.Add([]byte("&a {racks: *a}\n"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = read(string(text)) })
}
