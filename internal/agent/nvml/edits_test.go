//go:build cgo && linux

package nvml

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// install puts a driver below the machine's roots.
func (m *machine) install() {
	for _, node := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13"} {
		m.file(m.options.DevRoot, "dev/"+node, "")
	}
	m.file(m.options.ProcRoot, "driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu1/gi0/access 12\ngpu1/gi0/ci0/access 13\n")
	const folder = "usr/lib/x86_64-linux-gnu/"
	for _, name := range []string{"libcuda.so.550.54.15", "libnvidia-ml.so.550.54.15", "libcuda.so.535.1.1", "libother.so.1"} {
		m.file(m.options.DriverRoot, folder+name, "not a library")
	}
	m.file(m.options.DriverRoot, "usr/bin/nvidia-smi", "#!/bin/sh\n")
	m.options.CDIHook = "/usr/bin/nvidia-cdi-hook"
}

func TestEdits(t *testing.T) {
	m := newMachine(t, 2)
	m.install()
	b := m.open()
	if err := b.SetMIG(t.Context(), "GPU-1", true); err != nil {
		t.Fatal(err)
	}
	made, err := b.CreateInstance(t.Context(), "GPU-1", oneSlice, 6)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		uuid  string
		nodes []string
	}{
		"whole":    {"GPU-0", []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0", "/dev/nvidiactl"}},
		"instance": {made.UUID, []string{"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1", "/dev/nvidiactl"}},
	} {
		edits, err := b.Edits(t.Context(), []string{test.uuid})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var nodes []string
		for _, n := range edits.Nodes {
			nodes = append(nodes, n.Path)
			if n.HostPath != filepath.Join(m.options.DevRoot, n.Path) {
				t.Errorf("%s: %s comes from %s", name, n.Path, n.HostPath)
			}
		}
		if diff := cmp.Diff(test.nodes, nodes); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		var mounts []string
		for _, mount := range edits.Mounts {
			mounts = append(mounts, strings.TrimPrefix(mount.HostPath, m.options.DriverRoot)+" "+mount.ContainerPath)
		}
		const folder = "/usr/lib/x86_64-linux-gnu/"
		want := []string{
			"/usr/bin/nvidia-smi /usr/bin/nvidia-smi",
			folder + "libcuda.so.550.54.15 " + folder + "libcuda.so",
			folder + "libcuda.so.550.54.15 " + folder + "libcuda.so.550.54.15",
			folder + "libnvidia-ml.so.550.54.15 " + folder + "libnvidia-ml.so.550.54.15",
		}
		if diff := cmp.Diff(want, mounts); diff != "" {
			t.Errorf("%s: mounts (-want +got):\n%s", name, diff)
		}
		hook := []device.Hook{{Name: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Args: []string{"nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib/x86_64-linux-gnu"}}}
		if diff := cmp.Diff(hook, edits.Hooks); diff != "" {
			t.Errorf("%s: hooks (-want +got):\n%s", name, diff)
		}
		if !slices.Contains(edits.Env, "NVIDIA_VISIBLE_DEVICES=void") {
			t.Errorf("%s: environment %v", name, edits.Env)
		}
	}
}

// TestIMEXChannels: a container gets the channels that are asked for and that the node has.
func TestIMEXChannels(t *testing.T) {
	for _, exists := range []bool{false, true} {
		m := newMachine(t, 1)
		m.install()
		m.options.IMEXChannels = []int{0}
		path := filepath.Join(m.options.DevRoot, IMEXPath(0))
		if exists {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		edits, err := m.open().Edits(t.Context(), []string{"GPU-0"})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(edits.Nodes, func(n device.Node) bool { return n.Path == IMEXPath(0) }); got != exists {
			t.Errorf("channel exists: %v, given: %v", exists, got)
		}
	}
}

func TestEditsFail(t *testing.T) {
	m := newMachine(t, 1)
	m.install()
	b := m.open()
	if _, err := b.Edits(t.Context(), []string{"GPU-7"}); !errors.Is(err, device.ErrNotFound) || !strings.Contains(err.Error(), "GPU-7") {
		t.Errorf("unknown device: error %v, want ErrNotFound that names it", err)
	}
	if err := os.Remove(filepath.Join(m.options.DevRoot, "dev/nvidia-uvm")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Edits(t.Context(), []string{"GPU-0"}); !errors.Is(err, device.ErrNotFound) || !strings.Contains(err.Error(), "nvidia-uvm") {
		t.Errorf("missing node: error %v, want ErrNotFound that names it", err)
	}
}

// TestSONAME: a library is handed out by the name that programs ask for.
func TestSONAME(t *testing.T) {
	m := newMachine(t, 1)
	m.install()
	path := filepath.Join(m.options.DriverRoot, "usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15")
	source := filepath.Join(t.TempDir(), "empty.c")
	if err := os.WriteFile(source, []byte("int nothing;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", path, source).CombinedOutput(); err != nil {
		t.Skipf("no C compiler makes a library here: %v\n%s", err, out)
	}
	edits, err := m.open().Edits(t.Context(), []string{"GPU-0"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(edits.Mounts, func(m device.Mount) bool {
		return m.HostPath == path && m.ContainerPath == "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
	}) {
		t.Errorf("no mount of libcuda.so.1: %+v", edits.Mounts)
	}
}

func TestReset(t *testing.T) {
	m := newMachine(t, 2)
	m.install()
	log := filepath.Join(t.TempDir(), "log")
	m.file(m.options.DriverRoot, "usr/bin/nvidia-smi", "#!/bin/sh\necho \"$@\" >>"+log+"\n")
	b := m.open()

	m.device(0).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 77}}, nvml.SUCCESS
	}
	if err := b.Reset(t.Context(), "GPU-0"); !errors.Is(err, device.ErrBusy) || !strings.Contains(err.Error(), "77") {
		t.Errorf("reset of a used device: %v, want ErrBusy that names the process", err)
	}
	if err := b.Reset(t.Context(), "GPU-9"); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("reset of no device: %v, want ErrNotFound", err)
	}
	if m.shut != 0 {
		t.Errorf("the driver was closed %d times for resets that did not happen", m.shut)
	}

	if err := b.Reset(t.Context(), "GPU-1"); err != nil {
		t.Fatal(err)
	}
	ran, _ := os.ReadFile(log)
	if got, want := string(ran), "--gpu-reset -i GPU-1\n"; got != want {
		t.Errorf("nvidia-smi was run with %q, want %q", got, want)
	}
	if m.inits != 2 || m.shut != 1 {
		t.Errorf("the driver was opened %d times and closed %d times, want 2 and 1", m.inits, m.shut)
	}
	if inv, err := b.Inventory(t.Context()); err != nil || len(inv.Devices) != 2 {
		t.Errorf("after the reset: %v", err)
	}

	m.file(m.options.DriverRoot, "usr/bin/nvidia-smi", "#!/bin/sh\necho the GPU is a primary one; exit 3\n")
	if err := b.Reset(t.Context(), "GPU-1"); err == nil || !strings.Contains(err.Error(), "the GPU is a primary one") {
		t.Errorf("failed reset: %v, want nvidia-smi's words", err)
	}
	if _, err := b.Sample(t.Context()); err != nil {
		t.Errorf("after a failed reset: %v", err)
	}
}

// TestResetWhileWatching: Watch registers anew with the driver that was opened anew.
func TestResetWhileWatching(t *testing.T) {
	m := newMachine(t, 1)
	m.install()
	e := m.events()
	b := m.open()
	got, stop := watching(t, b, e)
	e.send <- happening{ret: nvml.ERROR_TIMEOUT}

	reset := make(chan error, 1)
	go func() { reset <- b.Reset(t.Context(), "GPU-0") }()
	for done := false; !done; {
		select { // waits run until the reset gets its turn
		case e.send <- happening{ret: nvml.ERROR_TIMEOUT}:
		case err := <-reset:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		}
	}
	e.send <- happening{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeXidCriticalError, EventData: 48}, nvml.SUCCESS}
	if ev := <-got; ev.Code != 48 {
		t.Errorf("event %+v after the reset", ev)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := len(e.registered["GPU-0"]); n != 2 {
		t.Errorf("registered %d times, want 2", n)
	}
}

func TestClosed(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if m.shut != 1 {
		t.Errorf("the driver was closed %d times", m.shut)
	}
	if _, err := b.Inventory(t.Context()); !errors.Is(err, device.ErrNoDriver) {
		t.Errorf("inventory of a closed back end: %v, want ErrNoDriver", err)
	}
	if err := b.Watch(t.Context(), nil); !errors.Is(err, device.ErrNoDriver) {
		t.Errorf("watch of a closed back end: %v, want ErrNoDriver", err)
	}
}

func TestDeviceNumber(t *testing.T) {
	// From stat of real nodes: st_rdev of (236, 12) and (236, 300).
	for _, test := range []struct{ major, minor, want int }{
		{236, 12, 0xec0c},
		{236, 300, 0x10ec2c},
	} {
		if got := deviceNumber(test.major, test.minor); got != test.want {
			t.Errorf("(%d, %d): %#x, want %#x", test.major, test.minor, got, test.want)
		}
	}
}
