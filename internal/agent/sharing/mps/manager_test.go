package mps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var gpu = GPU{UUID: "GPU-a", MemoryMiB: 143771}

// node is a state folder with the fakes, and what the manager's hooks were told.
type node struct {
	*testing.T
	state  string
	died   chan Death
	failed chan error
	ready  chan string
	mu     sync.Mutex
	modes  []string
}

func newNode(t *testing.T) *node {
	dir, err := os.MkdirTemp("", "mps") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, state: dir, died: make(chan Death, 16), failed: make(chan error, 16), ready: make(chan string, 16)}
	t.Cleanup(func() {
		// Whatever a failed test left running; only this test's own by its folder.
		for _, g := range []string{"GPU-a", "GPU-b"} {
			kill(strays(n.program(), filepath.Join(dir, g, "pipe")))
		}
		os.RemoveAll(dir)
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, n.program()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) program() string { return filepath.Join(n.state, "nvidia-cuda-mps-control") }

// manager starts an agent's. Times are long where a test waits for nothing else, because
// the machine may be slow.
func (n *node) manager(change ...func(*Options)) *Manager {
	n.Helper()
	o := Options{
		Control: n.program(), StateDir: n.state, MultiUser: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		StartWithin: time.Minute, AnswerWithin: time.Minute, HealthEvery: 50 * time.Millisecond,
		BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
		Exclusive: func(_ context.Context, gpu string, on bool) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.modes = append(n.modes, fmt.Sprintf("%s %v", gpu, on))
			return nil
		},
		Hooks: Hooks{
			Died:   func(d Death) { send(n.died, d) },
			Failed: func(_ string, err error) { send(n.failed, err) },
			Ready:  func(gpu string) { send(n.ready, gpu) },
		},
	}
	for _, c := range change {
		c(&o)
	}
	m, err := New(o)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(m.Close)
	return m
}

func (n *node) behave(gpu, how string) {
	n.Helper()
	dir := filepath.Join(n.state, gpu)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "behaviour"), []byte(how), 0o644); err != nil {
		n.Fatal(err)
	}
}

// pid is the daemon's process.
func (n *node) pid(gpu string) int {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.state, gpu, "pipe", pidFile))
	if err != nil {
		n.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		n.Fatal(err)
	}
	return pid
}

func (n *node) running(gpu string) int {
	return len(strays(n.program(), filepath.Join(n.state, gpu, "pipe")))
}

// send does not wait: hooks must not.
func send[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}

func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(3 * time.Minute):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

func share(name string, milli int, mib int64) Share {
	return Share{Allocation: name, Namespace: "team", Pod: "pod-" + name, PodUID: "uid-" + name, Container: "main", ComputeMilli: milli, MemoryMiB: mib}
}

func add(t *testing.T, m *Manager, s Share) {
	t.Helper()
	if _, err := m.Add(t.Context(), gpu, s); err != nil {
		t.Fatal(err)
	}
}

func settings(t *testing.T, m *Manager) []string {
	t.Helper()
	answer, err := m.control(gpu.UUID).ask(t.Context(), "fake_settings")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(answer, "\n")
}

func TestFirstToLast(t *testing.T) {
	n := newNode(t)
	m := n.manager()
	if n.running("GPU-a") != 0 {
		t.Error("a daemon runs without a share")
	}
	edits, err := m.Add(t.Context(), gpu, share("a", 700, 81920))
	if err != nil {
		t.Fatal(err)
	}
	wantEnv := []string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=70", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=81920M"}
	if diff := cmp.Diff(wantEnv, edits.Env); diff != "" {
		t.Error(diff)
	}
	if edits.Mounts[0].HostPath != filepath.Join(n.state, "GPU-a", "pipe") || edits.Mounts[1].HostPath != "/dev/shm" {
		t.Errorf("mounts %+v", edits.Mounts)
	}
	if n.running("GPU-a") != 2 {
		t.Errorf("%d processes, want daemon and server", n.running("GPU-a"))
	}
	if got := settings(t, m)[:3]; !slices.Equal(got, []string{"started -f -multiuser-server for GPU-a",
		"set_default_active_thread_percentage 70", "set_default_device_pinned_mem_limit 0 81920M"}) {
		t.Errorf("settings %q", got)
	}
	// A smaller share changes no limit of the daemon.
	before := len(settings(t, m))
	add(t, m, share("b", 300, 30720))
	if got := settings(t, m); len(got) != before {
		t.Errorf("settings %q", got)
	}
	if err := m.Keep(t.Context(), map[GPU][]Share{gpu: {share("b", 300, 30720)}}); err != nil {
		t.Fatal(err)
	}
	if got := settings(t, m); got[before] != "set_default_active_thread_percentage 30" || !strings.HasPrefix(got[before+2], "set_active_thread_percentage ") {
		t.Errorf("settings after the larger share ended %q", got[before:])
	}
	if err := m.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n.running("GPU-a") != 0 {
		t.Error("still running after the last share")
	}
	if diff := cmp.Diff([]string{"GPU-a true", "GPU-a false"}, n.modes); diff != "" {
		t.Error(diff)
	}
	if len(n.died) != 0 {
		t.Error("a daemon that was stopped counts as dead")
	}
}

func TestOvercommitted(t *testing.T) {
	n := newNode(t)
	m := n.manager()
	add(t, m, share("a", 700, 81920))
	tests := []struct {
		name  string
		share Share
		over  bool
		says  string
	}{
		{"compute", share("b", 301, 1), true, "compute 100.1 % of GPU-a in total with team/pod-b/main (30.1 % and 1 MiB), team/pod-a/main has 70 %"},
		{"memory", share("b", 100, 61852), true, "memory 143772 of 143771 MiB"},
		{"more than a device", share("b", 1001, 1), false, "compute share must be from 0 to 100 %"},
		{"negative", share("b", -1, 1), false, "compute share"},
		{"more memory than there is", share("b", 1, 1<<40), false, "memory share must be from 0 to 143771 MiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := m.Add(t.Context(), gpu, test.share)
			if err == nil || errors.Is(err, ErrOvercommitted) != test.over || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q", err, test.says)
			}
		})
	}
	// The same allocation again is no further share.
	add(t, m, share("a", 800, 81920))
	if got := m.Shares()["GPU-a"]; len(got) != 1 || got[0].ComputeMilli != 800 {
		t.Errorf("shares %+v", got)
	}
	if _, err := m.Add(t.Context(), GPU{UUID: "../x", MemoryMiB: 1}, share("z", 1, 1)); err == nil {
		t.Error("a UUID that leaves the folder was accepted")
	}
}

// A daemon that is killed: its containers are reported, it comes back with its limits, and the
// server that it left is gone.
func TestKilled(t *testing.T) {
	n := newNode(t)
	m := n.manager()
	add(t, m, share("a", 700, 81920))
	receive(t, n.ready, "ready")
	servers, err := m.control("GPU-a").servers(t.Context())
	if err != nil || len(servers) != 1 {
		t.Fatal(servers, err)
	}
	old := n.pid("GPU-a")
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	death := receive(t, n.died, "death")
	if death.GPU != "GPU-a" || len(death.Shares) != 1 || death.Shares[0].Holder() != "team/pod-a/main" ||
		// Its end is seen by its parent, or by the next question to it.
		!strings.Contains(death.Reason.Error(), "killed") && !strings.Contains(death.Reason.Error(), "is gone") {
		t.Errorf("death %+v", death)
	}
	receive(t, n.ready, "recovery")
	if n.pid("GPU-a") == old || n.running("GPU-a") != 2 {
		t.Errorf("%d processes after recovery", n.running("GPU-a"))
	}
	if isDaemon(servers[0], n.program(), filepath.Join(n.state, "GPU-a", "pipe")) {
		t.Error("the old server is left")
	}
	if got := settings(t, m); !slices.Contains(got, "set_default_active_thread_percentage 70") {
		t.Errorf("settings %q", got)
	}
	if err := m.Ready("GPU-a"); err != nil {
		t.Error(err)
	}
}

func TestHangs(t *testing.T) {
	n := newNode(t)
	m := n.manager(func(o *Options) { o.AnswerWithin, o.StartWithin, o.Misses = time.Second, 3*time.Second, 2 })
	add(t, m, share("a", 500, 1000))
	receive(t, n.ready, "ready")
	old := n.pid("GPU-a")
	n.behave("GPU-a", "hang")
	death := receive(t, n.died, "death")
	if !strings.Contains(death.Reason.Error(), "no answer within") {
		t.Errorf("reason %v", death.Reason)
	}
	// The new one hangs too.
	if err := receive(t, n.failed, "failure"); !strings.Contains(err.Error(), "not ready within") && !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("failure %v", err)
	}
	n.behave("GPU-a", "")
	receive(t, n.ready, "recovery")
	if isDaemon(old, n.program(), filepath.Join(n.state, "GPU-a", "pipe")) {
		t.Error("the daemon that hung still runs")
	}
}

func TestRefuses(t *testing.T) {
	n := newNode(t)
	n.behave("GPU-a", "refuse")
	m := n.manager()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := m.Add(ctx, gpu, share("a", 500, 1000))
		result <- err
	}()
	failure := receive(t, n.failed, "failure")
	if !strings.Contains(failure.Error(), "already running") || !strings.Contains(failure.Error(), "exit status 1") {
		t.Errorf("failure %v, want the daemon's own words", failure)
	}
	cancel()
	if err := receive(t, result, "the answer"); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Errorf("error %v, want the reason", err)
	}
	if err := m.Ready("GPU-a"); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Errorf("error %v", err)
	}
	n.behave("GPU-a", "")
	add(t, m, share("a", 500, 1000))
}

// A daemon that does not take its limits does not serve.
func TestLimitNotTaken(t *testing.T) {
	for behaviour, says := range map[string]string{
		"stubborn": "percentage is 100.0 after setting 50",
		"generous": "memory limit is 100000G after setting 1000M",
	} {
		t.Run(behaviour, func(t *testing.T) {
			n := newNode(t)
			n.behave("GPU-a", behaviour)
			m := n.manager()
			go func() { _, _ = m.Add(t.Context(), gpu, share("a", 500, 1000)) }()
			if err := receive(t, n.failed, "failure"); !strings.Contains(err.Error(), says) {
				t.Errorf("failure %v, want %q", err, says)
			}
		})
	}
}

// The daemon outlives the agent; the next one takes it over, and ends it when there is
// no share, even when it does not listen.
func TestAgentRestarts(t *testing.T) {
	n := newNode(t)
	m := n.manager()
	add(t, m, share("a", 500, 1000))
	receive(t, n.ready, "ready")
	old := n.pid("GPU-a")
	m.Close()
	if n.running("GPU-a") != 2 {
		t.Fatal("the daemon ended with the agent")
	}
	m = n.manager()
	if err := m.Keep(t.Context(), map[GPU][]Share{gpu: {share("a", 500, 1000)}}); err != nil {
		t.Fatal(err)
	}
	receive(t, n.ready, "take-over")
	if n.pid("GPU-a") != old {
		t.Error("another daemon was started")
	}
	// Its death is seen although it is no child.
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	receive(t, n.died, "death")
	receive(t, n.ready, "recovery")
	m.Close()
	n.behave("GPU-a", "deaf")
	m = n.manager(func(o *Options) { o.AnswerWithin = time.Second })
	if err := m.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n.running("GPU-a") != 0 {
		t.Error("a daemon without shares is left")
	}
}
