package sharing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/hami"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mig"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// hardware is a back end of two GPUs; methods that are not here are never called.
type hardware struct {
	device.Backend
	gpus []device.Device
	next int
}

func (h *hardware) Inventory(context.Context) (*device.Inventory, error) {
	out := &device.Inventory{}
	for _, d := range h.gpus {
		m := *d.MIG
		m.Instances = slices.Clone(m.Instances)
		d.MIG = &m
		out.Devices = append(out.Devices, d)
	}
	return out, nil
}

func (h *hardware) Sample(context.Context) ([]device.Sample, error) { return nil, nil }

func (h *hardware) gpu(uuid string) *device.Device {
	return &h.gpus[slices.IndexFunc(h.gpus, func(d device.Device) bool { return d.UUID == uuid })]
}

func (h *hardware) SetMIG(_ context.Context, uuid string, on bool) error {
	h.gpu(uuid).MIG.Enabled = on
	return nil
}

func (h *hardware) CreateInstance(_ context.Context, uuid string, profile, start int) (device.Instance, error) {
	h.next++
	i := device.Instance{UUID: fmt.Sprintf("MIG-%d", h.next), GPUInstance: h.next, ProfileID: profile, Profile: "1g.18gb", Start: start, Size: 1}
	m := h.gpu(uuid).MIG
	m.Instances = append(m.Instances, i)
	return i, nil
}

func (h *hardware) DestroyInstance(_ context.Context, uuid string, gi int) error {
	m := h.gpu(uuid).MIG
	m.Instances = slices.DeleteFunc(m.Instances, func(i device.Instance) bool { return i.GPUInstance == gi })
	return nil
}

func (h *hardware) Edits(_ context.Context, uuids []string) (device.Edits, error) {
	var out device.Edits
	for _, uuid := range uuids {
		out.Nodes = append(out.Nodes, device.Node{Path: "/dev/" + uuid})
	}
	out.Env = []string{"DRIVER=1", "CUDA_MPS_PIPE_DIRECTORY=wrong"}
	return out, nil
}

// control is an MPS control daemon of a few lines.
const control = `#!/bin/bash
pidfile="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = -f ]; then
	echo $$ >"$pidfile"
	exec -a nvidia-cuda-mps-control sleep 1000
fi
[ -e "$pidfile" ] || exit 1
read -r command
[ "$command" != quit ] || kill "$(cat "$pidfile")"
`

type fixture struct {
	*testing.T
	hardware *hardware
	dir      string
	now      time.Time
	sharing  *Sharing
	live     []device.Allocation
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, hardware: &hardware{}, dir: t.TempDir(), now: time.Unix(1000, 0)}
	for i, uuid := range []string{"GPU-0", "GPU-1"} {
		f.hardware.gpus = append(f.hardware.gpus, device.Device{Index: i, UUID: uuid, MemoryMiB: 100000,
			MIG: &device.MIG{Profiles: []device.Profile{{ID: 19, Name: "1g.18gb", Starts: []int{0, 1, 2, 3, 4, 5, 6}, Size: 1}}}})
	}
	program := filepath.Join(f.dir, "nvidia-cuda-mps-control")
	if err := os.WriteFile(program, []byte(control), 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	o := Options{Backend: f.hardware, CDIDir: filepath.Join(f.dir, "cdi"), StateDir: filepath.Join(f.dir, "state"),
		Shares: MPS, Log: log, Now: func() time.Time { return f.now },
		MIG:  mig.Options{Linger: time.Minute, Now: func() time.Time { return f.now }},
		MPS:  mps.Options{Control: program, BackoffMin: time.Millisecond},
		Live: func(context.Context) ([]device.Allocation, error) { return f.live, nil }}
	if change != nil {
		change(&o)
	}
	var err error
	if f.sharing, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.sharing.Close()
		files, _ := filepath.Glob(filepath.Join(f.dir, "state", "mps", "*", "pipe", "*.pid"))
		for _, file := range files {
			data, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return f
}

func allocation(id string, devices ...device.Grant) device.Allocation {
	return device.Allocation{ID: id, Namespace: "team", Pod: "pod-" + id, PodUID: "uid-" + id, Container: "main", Resource: "nvidia.com/gpu", Devices: devices}
}

func (f *fixture) prepare(a device.Allocation) {
	f.Helper()
	if err := f.sharing.Prepare(f.Context(), a); err != nil {
		f.Fatal(err)
	}
	f.live = append(f.live, a)
}

func (f *fixture) collect() {
	f.Helper()
	if err := f.sharing.Collect(f.Context(), f.live); err != nil {
		f.Fatal(err)
	}
}

// container is the environment and the device nodes in an allocation's CDI file; nil
// when there is none.
func (f *fixture) container(id string) []string {
	f.Helper()
	data, err := os.ReadFile(f.sharing.specs.Path(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var spec struct {
		Devices []struct {
			ContainerEdits struct {
				Env         []string
				DeviceNodes []struct{ Path string }
			}
		}
	}
	if err := errors.Join(err, json.Unmarshal(data, &spec)); err != nil {
		f.Fatal(err)
	}
	out := spec.Devices[0].ContainerEdits.Env
	for _, node := range spec.Devices[0].ContainerEdits.DeviceNodes {
		out = append(out, node.Path)
	}
	return out
}

func (f *fixture) want(id string, want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.container(id)); diff != "" {
		f.Errorf("container of %s: %s", id, diff)
	}
}

const (
	void = "NVIDIA_VISIBLE_DEVICES=void"
	pipe = "CUDA_MPS_PIPE_DIRECTORY=wrong" // what the back end says
)

func TestWholeThenSlicesThenWhole(t *testing.T) {
	f := newFixture(t, nil)
	f.prepare(allocation("a", device.Grant{UUID: "GPU-0"}, device.Grant{UUID: "GPU-1"}))
	f.want("a", void, "DRIVER=1", pipe, "/dev/GPU-0", "/dev/GPU-1")
	f.live = nil
	f.now = f.now.Add(time.Minute)
	f.collect()
	f.want("a")
	slice := allocation("b", device.Grant{UUID: "GPU-0", Profile: "1g.18gb", Start: 4})
	f.prepare(slice)
	f.want("b", void, "DRIVER=1", pipe, "/dev/MIG-1")
	f.prepare(slice)
	f.want("b", void, "DRIVER=1", pipe, "/dev/MIG-1")
	// In use: the whole device is refused, with the reason.
	err := f.sharing.Prepare(t.Context(), allocation("c", device.Grant{UUID: "GPU-0"}))
	if !errors.Is(err, device.ErrBusy) || !strings.Contains(err.Error(), "prepare team/pod-c/main") || !strings.Contains(err.Error(), "is allocated") {
		t.Errorf("error %v", err)
	}
	// Ended, not yet collected: the whole device is given at once.
	f.live = nil
	f.now = f.now.Add(time.Minute)
	f.prepare(allocation("c", device.Grant{UUID: "GPU-0"}))
	if m := f.hardware.gpu("GPU-0").MIG; m.Enabled || len(m.Instances) != 0 {
		t.Errorf("MIG %+v", m)
	}
}

func TestSharesByMPS(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Turns = map[string]Turns{"nvidia.com/gpu.shared": {Mode: MPS, Replicas: 4}}
	})
	f.prepare(allocation("a", device.Grant{UUID: "GPU-0", MemoryMiB: 60000, ComputeMilli: 700}))
	f.want("a", void, "DRIVER=1", "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=70",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=60000M", "/dev/GPU-0")
	b := allocation("b", device.Grant{UUID: "GPU-0", MemoryMiB: 1000, ComputeMilli: 400})
	if err := f.sharing.Prepare(t.Context(), b); !errors.Is(err, mps.ErrOvercommitted) || !strings.Contains(err.Error(), "compute 110 %") {
		t.Errorf("error %v", err)
	}
	f.want("b")
	if err := f.sharing.Prepare(t.Context(), allocation("c", device.Grant{UUID: "GPU-0"})); !errors.Is(err, device.ErrBusy) || !strings.Contains(err.Error(), "team/pod-a/main") {
		t.Errorf("error %v", err)
	}
	// a has ended.
	f.live = nil
	f.now = f.now.Add(time.Minute)
	f.prepare(b)
	turns := allocation("t", device.Grant{UUID: "GPU-1", Turn: true})
	turns.Resource = "nvidia.com/gpu.shared"
	f.prepare(turns)
	if got := f.container("t"); !slices.Contains(got, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25") || !slices.Contains(got, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=25000M") {
		t.Errorf("container %q", got)
	}
	// A device that the driver does not list for a moment keeps its shares.
	all := f.hardware.gpus
	f.hardware.gpus = all[:1]
	f.collect()
	f.hardware.gpus = all
	if got := f.sharing.MPS().Shares(); len(got["GPU-1"]) != 1 || len(got["GPU-0"]) != 1 {
		t.Errorf("shares %+v", got)
	}
	f.live = nil
	f.now = f.now.Add(time.Minute)
	f.collect()
	if got := f.sharing.MPS().Shares(); len(got) != 0 {
		t.Errorf("shares %+v", got)
	}
	f.prepare(allocation("c", device.Grant{UUID: "GPU-0"}))
}

// A list that is older than the container does not take its things away.
func TestGrace(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.sharing.Prepare(t.Context(), allocation("a", device.Grant{UUID: "GPU-0", Profile: "1g.18gb"})); err != nil {
		t.Fatal(err)
	}
	f.collect()
	f.now = f.now.Add(29 * time.Second)
	f.collect()
	if f.container("a") == nil {
		t.Error("collected at once")
	}
	f.now = f.now.Add(2 * time.Minute)
	f.collect()
	f.now = f.now.Add(2 * time.Minute)
	f.collect()
	if f.container("a") != nil || len(f.hardware.gpu("GPU-0").MIG.Instances) != 0 {
		t.Error("never collected")
	}
	f.prepare(allocation("b", device.Grant{UUID: "GPU-0"}))
	if err := f.sharing.Release(t.Context(), "b"); err != nil || f.container("b") != nil {
		t.Errorf("released: %v", err)
	}
}

// Admin access shows devices as they are, and excludes no other use.
func TestAdmin(t *testing.T) {
	f := newFixture(t, nil)
	f.prepare(allocation("a", device.Grant{UUID: "GPU-0", Profile: "1g.18gb", Start: 4}))
	admin := allocation("admin", device.Grant{UUID: "GPU-0"})
	admin.Admin = true
	f.prepare(admin)
	f.want("admin", void, "DRIVER=1", pipe, "/dev/GPU-0")
	if m := f.hardware.gpu("GPU-0").MIG; !m.Enabled || len(m.Instances) != 1 {
		t.Errorf("MIG %+v", m)
	}
	slice := allocation("slice", device.Grant{UUID: "GPU-0", Profile: "1g.18gb", Start: 4})
	slice.Admin = true
	f.prepare(slice)
	f.want("slice", void, "DRIVER=1", pipe, "/dev/MIG-1")
	none := allocation("none", device.Grant{UUID: "GPU-0", Profile: "1g.18gb", Start: 0})
	none.Admin = true
	if err := f.sharing.Prepare(t.Context(), none); !errors.Is(err, device.ErrNotFound) || !strings.Contains(err.Error(), "admin access makes none") {
		t.Errorf("error %v", err)
	}
	// The owner ends: its instance goes, and the admin's files stay.
	f.live = []device.Allocation{admin, slice}
	f.now = f.now.Add(2 * time.Minute)
	f.collect()
	f.now = f.now.Add(2 * time.Minute)
	f.collect()
	if m := f.hardware.gpu("GPU-0").MIG; m.Enabled || len(m.Instances) != 0 {
		t.Errorf("MIG %+v", m)
	}
	f.want("admin", void, "DRIVER=1", pipe, "/dev/GPU-0")
}

// Turns by time-slicing have no limits.
func TestTimeSlicing(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Shares = ""
		o.MPS = mps.Options{}
		o.Turns = map[string]Turns{"nvidia.com/gpu": {Mode: TimeSlicing, Replicas: 4}}
	})
	f.prepare(allocation("a", device.Grant{UUID: "GPU-0", Turn: true}, device.Grant{UUID: "GPU-0", Turn: true}))
	f.want("a", void, "DRIVER=1", pipe, "/dev/GPU-0")
	err := f.sharing.Prepare(t.Context(), allocation("b", device.Grant{UUID: "GPU-0", MemoryMiB: 1}))
	if !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "sharing.shares") {
		t.Errorf("error %v", err)
	}
}

func TestHAMi(t *testing.T) {
	library := t.TempDir()
	for _, name := range []string{"libvgpu.so", "ld.so.preload"} {
		if err := os.WriteFile(filepath.Join(library, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := newFixture(t, func(o *Options) {
		o.Shares = HAMi
		o.HAMi = hami.Options{LibraryDir: library, LockDir: t.TempDir()}
	})
	f.prepare(allocation("a", device.Grant{UUID: "GPU-1", MemoryMiB: 2000, ComputeMilli: 300}, device.Grant{UUID: "GPU-0", MemoryMiB: 1000}))
	f.want("a", void, "DRIVER=1", pipe, "CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/a.cache", "GPU_CORE_UTILIZATION_POLICY=force",
		"CUDA_DEVICE_MEMORY_LIMIT_0=2000m", "CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_0=30", "CUDA_DEVICE_MEMORY_LIMIT_1=1000m",
		"/dev/GPU-1", "/dev/GPU-0")
	if f.sharing.MPS() != nil {
		t.Error("MPS without need")
	}
}

func TestInvalidAllocations(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Turns = map[string]Turns{"nvidia.com/gpu": {Mode: MPS, Replicas: 2}}
	})
	turn := device.Grant{UUID: "GPU-0", Turn: true}
	tests := []struct {
		name string
		a    device.Allocation
		want string
	}{
		{"nothing", allocation("a"), "devices: none"},
		{"no UUID", allocation("a", device.Grant{}), "devices[0]: uuid"},
		{"turn with amounts", allocation("a", device.Grant{UUID: "GPU-0", Turn: true, MemoryMiB: 1}), "devices[0]: profile, turn and amounts exclude each other"},
		{"start without a profile", allocation("a", device.Grant{UUID: "GPU-0", Start: 1}), "exclude each other"},
		{"negative", allocation("a", device.Grant{UUID: "GPU-0", MemoryMiB: -1}), "out of range"},
		{"too much", allocation("a", device.Grant{UUID: "GPU-0", ComputeMilli: 1001}), "out of range"},
		{"mixed", allocation("a", device.Grant{UUID: "GPU-0"}, turn), "devices[1]: a turn beside a whole device"},
		{"two devices by MPS", allocation("a", device.Grant{UUID: "GPU-0", MemoryMiB: 1}, device.Grant{UUID: "GPU-1", MemoryMiB: 1}), "MPS gives a container shares of one device"},
		{"more turns than there are", allocation("a", turn, turn, turn), "3 turns of 2"},
		{"no such device", allocation("a", device.Grant{UUID: "GPU-7"}), "GPU-7"},
		{"no such device by MPS", allocation("a", device.Grant{UUID: "GPU-7", MemoryMiB: 1}), "GPU-7"},
		{"an ID that leaves the folder", allocation("../a", device.Grant{UUID: "GPU-0"}), "allocation ID"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := f.sharing.Prepare(t.Context(), test.a); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			f.live = []device.Allocation{test.a}
			_ = f.sharing.Collect(t.Context(), f.live) // it must not crash
		})
	}
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	good := Options{Backend: &hardware{}, CDIDir: filepath.Join(dir, "cdi"), StateDir: dir}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"sharing.backend":         func(o *Options) { o.Backend = nil },
		"sharing.cdiDir":          func(o *Options) { o.CDIDir = "x" },
		"sharing.stateDir":        func(o *Options) { o.StateDir = "x" },
		"sharing.mps.control":     func(o *Options) { o.Shares, o.MPS.Control = MPS, "/no/such" },
		"sharing.hami.libraryDir": func(o *Options) { o.Shares, o.HAMi.LibraryDir = HAMi, "/no/such" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
