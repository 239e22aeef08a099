package coretest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the parts of documents that follow from tables")

// Block compares a part of a document with what the code's tables make of it: the lines
// between "<!-- NAME: generated -->" and "<!-- end of NAME -->". With -update it is written.
// The document's path is relative to the repository's root; tests of packages two folders
// below it may call it.
func Block(t *testing.T, document, name, want string) {
	t.Helper()
	path := filepath.Join("..", "..", filepath.FromSlash(document))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": generated -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(string(data), begin)
	got, after, foundEnd := strings.Cut(rest, end)
	switch {
	case !found || !foundEnd:
		t.Errorf("%s has no %q and %q", document, begin, end)
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s: the part %q is not as the code has it; run this test with -update\ngot:\n%swant:\n%s", document, name, got, want)
	}
}
