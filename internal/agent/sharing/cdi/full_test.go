package cdi

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// small mounts a file system of some kilobytes; the test is skipped where that is not
// allowed.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A full disk, then a read-only one: a clear error, and the old file stays whole.
func TestDiskFullAndReadOnly(t *testing.T) {
	dir := small(t)
	s, err := NewStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write("a", device.Edits{Env: []string{"OLD=1"}}); err != nil {
		t.Fatal(err)
	}
	unchanged := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), s.Path("a")) {
			t.Errorf("error %v, want %v with the path", err, want)
		}
		data, err := os.ReadFile(s.Path("a"))
		if err != nil || !strings.Contains(string(data), "OLD=1") {
			t.Errorf("the old file is %s, %v", data, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%d files, want 1", len(entries))
		}
	}
	large := device.Edits{Env: []string{"NEW=" + strings.Repeat("x", 64<<10)}}
	unchanged(s.Write("a", large), syscall.ENOSPC)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	unchanged(s.Write("a", device.Edits{Env: []string{"NEW=1"}}), syscall.EROFS)
}
