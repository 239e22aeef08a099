package archtest

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func ourRule() Rule {
	return Rule{Module: "github.com/tangram-dev/tangram", Rows: Table(), Guarded: Guarded()}
}

// TestRepository is the gate: the source of this repository keeps the rule.
func TestRepository(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found, err := ourRule().Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// TestBad proves that the gate closes: in the small repository testdata/bad,
// every line with a "// want: text" comment is complained about in these words,
// and no other line is.
func TestBad(t *testing.T) {
	const root = "testdata/bad"
	found, err := ourRule().Check(root)
	if err != nil {
		t.Fatal(err)
	}
	wants := wanted(t, root)
	if len(wants) == 0 {
		t.Fatal("testdata/bad wants nothing")
	}
	for _, v := range found {
		at := fmt.Sprintf("%s:%d", v.File, v.Line)
		i := slices.IndexFunc(wants[at], func(text string) bool { return strings.Contains(v.Text, text) })
		if i < 0 {
			t.Errorf("unwanted complaint: %s", v)
			continue
		}
		wants[at] = slices.Delete(wants[at], i, i+1)
	}
	for at, texts := range wants {
		for _, text := range texts {
			t.Errorf("%s: no complaint about: %s", at, text)
		}
	}
}

// TestGood proves that the gate opens: testdata/good does all that is allowed.
func TestGood(t *testing.T) {
	found, err := ourRule().Check("testdata/good")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// TestTable keeps the table itself in order: a reason in every row, one row per
// folder, no row for a folder that is gone.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Table() {
		if row.Why == "" {
			t.Errorf("row %s has no reason", row.Folder)
		}
		if seen[row.Folder] {
			t.Errorf("row %s is there twice", row.Folder)
		}
		seen[row.Folder] = true
		folder := filepath.Join("..", "..", strings.TrimSuffix(row.Folder, "/..."))
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("row %s: there is no such folder; remove the row", row.Folder)
		}
	}
}

// wanted reads the "// want:" comments below root, by file:line.
func wanted(t *testing.T, root string) map[string][]string {
	t.Helper()
	wants := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(file)
		for n := 1; lines.Scan(); n++ {
			if _, text, ok := strings.Cut(lines.Text(), "// want: "); ok {
				at := fmt.Sprintf("%s:%d", filepath.ToSlash(rel), n)
				wants[at] = append(wants[at], strings.Split(text, "; ")...)
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return wants
}
