package archtest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadingLists checks that package comments and folders agree.
func TestReadingLists(t *testing.T) {
	found, err := ReadingLists(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// TestReadingListsSeen checks that the comparison sees what it is for.
func TestReadingListsSeen(t *testing.T) {
	for _, c := range []struct{ name, comment, want string }{
		{"all", "Read a.go, then b_*.go.", ""},
		{"with a path", "Read sub/a.go, a.go and b_unix.go.", ""},
		{"no list", "The format is in a.go.", ""},
		{"gone", "The format is in c.go.", "the package comment names c.go, which does not exist"},
		{"missing", "Reading order: a.go.", "the reading list does not name b_unix.go"},
		{"table", "\ta.go  values\n//\tb_unix.go  times\n//\tgone.go", "the package comment names gone.go, which does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{
				"p/doc.go": "// Package p is an example.\n//\n// " + c.comment + "\npackage p\n",
				"p/a.go":   "package p\n", "p/a_test.go": "package p\n", "p/b_unix.go": "package p\n", "sub/a.go": "package sub\n",
			} {
				name = filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, err := ReadingLists(root)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, v := range found {
				got += v.Text
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
