package hami

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func installed(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{library, preload} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Options{LibraryDir: dir, CacheDir: filepath.Join(t.TempDir(), "cache"), LockDir: filepath.Join(t.TempDir(), "lock")}
}

var holder = device.Allocation{ID: "id1", PodUID: "uid", Container: "main"}

func TestEdits(t *testing.T) {
	o := installed(t)
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := l.Edits(holder, []Limit{{25000, 300}, {1000, 0}, {0, 5}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/id1.cache",
		"GPU_CORE_UTILIZATION_POLICY=force",
		"CUDA_DEVICE_MEMORY_LIMIT_0=25000m", "CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_0=30",
		"CUDA_DEVICE_MEMORY_LIMIT_1=1000m",
		"CUDA_DEVICE_SM_LIMIT_2=1",
	}
	if diff := cmp.Diff(want, edits.Env); diff != "" {
		t.Error(diff)
	}
	var mounts []string
	for _, m := range edits.Mounts {
		if _, err := os.Stat(m.HostPath); err != nil {
			t.Errorf("mount of what does not exist: %v", err)
		}
		mounts = append(mounts, m.ContainerPath+" "+m.Options[0])
	}
	if diff := cmp.Diff([]string{"/usr/local/vgpu rw", "/tmp/vgpulock rw", "/usr/local/vgpu/libvgpu.so ro", "/etc/ld.so.preload ro"}, mounts); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(o.CacheDir, "uid_main")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("folder %v, %v", info, err)
	}
}

func TestCollect(t *testing.T) {
	o := installed(t)
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Collect(nil); err != nil {
		t.Errorf("nothing to collect: %v", err)
	}
	other := device.Allocation{ID: "id2", PodUID: "uid", Container: "side"}
	for _, a := range []device.Allocation{holder, other} {
		if _, err := l.Edits(a, nil); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(o.CacheDir, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.Collect([]device.Allocation{other}); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(o.CacheDir, "*"))
	if diff := cmp.Diff([]string{foreign, filepath.Join(o.CacheDir, "uid_side")}, left); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	o := installed(t)
	half := installed(t)
	if err := os.Remove(filepath.Join(half.LibraryDir, preload)); err != nil {
		t.Fatal(err)
	}
	relative := o
	relative.CacheDir = "x"
	folder := o
	folder.LibraryDir = t.TempDir()
	if err := os.Mkdir(filepath.Join(folder.LibraryDir, library), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{LibraryDir: "/no/such", CacheDir: "/x"}, "hami.libraryDir: HAMi-core is not installed"},
		{half, "hami.libraryDir: HAMi-core is not installed: stat " + filepath.Join(half.LibraryDir, preload)},
		{folder, "hami.libraryDir: HAMi-core is not installed"},
		{relative, "hami.cacheDir"},
	} {
		if _, err := New(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []device.Allocation{{}, {ID: "a", PodUID: "../..", Container: "x"}, {ID: "a", PodUID: "..", Container: "x"}, {ID: "../a", PodUID: "u", Container: "x"}} {
		if _, err := l.Edits(a, nil); err == nil {
			t.Errorf("%+v was accepted", a)
		}
	}
	if _, err := l.Edits(holder, []Limit{{-1, 0}}); err == nil {
		t.Error("negative memory was accepted")
	}
}
