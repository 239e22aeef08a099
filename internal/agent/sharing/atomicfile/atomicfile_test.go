package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file.json")
	for _, want := range []string{"one", "two"} {
		if err := Write(path, []byte(want), 0o644, nil); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != want {
			t.Errorf("content %q, want %q", got, want)
		}
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files %v, want one", got)
	}
}

// What the check refuses, and a target that cannot be replaced, leave the old file whole
// and nothing beside it.
func TestWriteFailsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Write(path, []byte("old"), 0o600, nil); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err := Write(path, []byte("new"), 0o600, func(unfinished string) error {
		if got := content(t, unfinished); got != "new" {
			t.Errorf("checked %q, want the new content", got)
		}
		return refused
	})
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the check's with the path", err)
	}
	occupied := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(occupied, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(occupied, []byte("new"), 0o600, nil); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if got := content(t, path); got != "old" {
		t.Errorf("content %q, want old", got)
	}
	if got := strings.Join(names(t, dir), " "); got != "file folder" {
		t.Errorf("files %q, want no unfinished one", got)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".tangram-1.tmp", "other.tmp", "spec.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(t, dir), " "); got != "other.tmp spec.json" {
		t.Errorf("files %q", got)
	}
	if err := Sweep(filepath.Join(dir, "absent")); err != nil {
		t.Errorf("an absent folder: %v", err)
	}
}
