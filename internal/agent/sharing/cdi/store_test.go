package cdi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	library "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func store(t *testing.T) *Store {
	t.Helper()
	s, err := NewStore(filepath.Join(t.TempDir(), "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a runtime finds in the folder is what was written.
func TestRuntimeReadsIt(t *testing.T) {
	s := store(t)
	edits := device.Edits{
		Env:    []string{"A=1", "NVIDIA_VISIBLE_DEVICES=all"},
		Nodes:  []device.Node{{Path: "/dev/nvidia0", HostPath: "/dev/null"}, {Path: "/dev/full", Permissions: "r"}},
		Mounts: []device.Mount{{HostPath: "/etc/hostname", ContainerPath: "/mnt/h", Options: []string{"ro"}}},
		Hooks:  []device.Hook{{Name: "createContainer", Path: "/bin/true", Args: []string{"true", "x"}}},
	}
	if err := s.Write("abc123", edits); err != nil {
		t.Fatal(err)
	}
	cache, err := library.NewCache(library.WithSpecDirs(s.dir), library.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	found := cache.GetDevice("tangram.dev/allocation=abc123")
	if found == nil || Name("abc123") != "tangram.dev/allocation=abc123" {
		t.Fatalf("no such device among %v", cache.ListDevices())
	}
	got := found.ContainerEdits
	if diff := cmp.Diff([]string{"NVIDIA_VISIBLE_DEVICES=void", "A=1"}, got.Env); diff != "" {
		t.Error(diff)
	}
	if n := got.DeviceNodes[0]; n.Path != "/dev/nvidia0" || n.HostPath != "/dev/null" || n.Permissions != "rw" {
		t.Errorf("node %+v", n)
	}
	if n := got.DeviceNodes[1]; n.HostPath != "" || n.Permissions != "r" {
		t.Errorf("node %+v", n)
	}
	if m := got.Mounts[0]; m.Type != "bind" || strings.Join(m.Options, ",") != "ro,rbind" {
		t.Errorf("mount %+v", m)
	}
	if h := got.Hooks[0]; h.HookName != "createContainer" || len(h.Args) != 2 {
		t.Errorf("hook %+v", h)
	}
}

// An allocation without a single edit still hides all devices.
func TestVoidAlways(t *testing.T) {
	s := store(t)
	if err := s.Write("a", device.Edits{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.Path("a"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "NVIDIA_VISIBLE_DEVICES=void") {
		t.Error(string(data))
	}
}

func TestInvalidIsRefusedWhole(t *testing.T) {
	tests := []struct {
		name, id string
		edits    device.Edits
		want     string
	}{
		{"ID with a slash", "../x", device.Edits{}, "allocation ID"},
		{"no ID", "", device.Edits{}, "allocation ID"},
		{"node without a path", "a", device.Edits{Nodes: []device.Node{{HostPath: "/dev/null"}}}, "device"},
		{"mount without a target", "a", device.Edits{Mounts: []device.Mount{{HostPath: "/x"}}}, "mount"},
		{"unknown hook", "a", device.Edits{Hooks: []device.Hook{{Name: "sometime", Path: "/x"}}}, "hook"},
		{"variable without a value", "a", device.Edits{Env: []string{"A"}}, "environment"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := store(t)
			if err := s.Write("a", device.Edits{Env: []string{"OLD=1"}}); err != nil {
				t.Fatal(err)
			}
			err := s.Write(test.id, test.edits)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			data, err := os.ReadFile(s.Path("a"))
			if err != nil || !strings.Contains(string(data), "OLD=1") {
				t.Errorf("the old file is %s, %v", data, err)
			}
			if entries, _ := os.ReadDir(s.dir); len(entries) != 1 {
				t.Errorf("%d files, want 1", len(entries))
			}
		})
	}
}

func TestCollect(t *testing.T) {
	s := store(t)
	foreign := filepath.Join(s.dir, "nvidia.json")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := s.Write(id, device.Edits{}); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := s.Collect([]string{"b", "never-written"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, removed); diff != "" {
		t.Error(diff)
	}
	left, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, left); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file of another program was removed")
	}
	if err := s.Remove("a"); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

// The same content is not written again, so that a runtime that watches the folder is
// not woken for nothing.
func TestSameContentIsNotRewritten(t *testing.T) {
	s := store(t)
	for range 2 {
		if err := s.Write("a", device.Edits{Env: []string{"A=1"}}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.Stat(s.Path("a"))
	if err := s.Write("a", device.Edits{Env: []string{"A=1"}}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(s.Path("a"))
	if !os.SameFile(before, after) {
		t.Error("the file was replaced")
	}
}

func TestRelativeFolder(t *testing.T) {
	if _, err := NewStore("cdi"); err == nil {
		t.Error("a relative folder was accepted")
	}
}
