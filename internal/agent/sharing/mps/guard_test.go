package mps

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// guarded is a manager with one share for each of two pods, and a fake /proc.
type guarded struct {
	*node
	manager *Manager
	proc    string
	guard   *Guard
}

const (
	podA = "11111111-2222-3333-4444-555555555555"
	podB = "99999999-2222-3333-4444-555555555555"
)

func newGuarded(t *testing.T, options GuardOptions) *guarded {
	t.Helper()
	n := newNode(t)
	g := &guarded{node: n, manager: n.manager(), proc: t.TempDir()}
	a, b := share("a", 700, 81920), share("b", 300, 30720)
	a.PodUID, b.PodUID = podA, podB
	add(t, g.manager, a)
	add(t, g.manager, b)
	options.Proc = g.proc
	g.guard = NewGuard(g.manager, options)
	return g
}

// process makes a process of a pod in the fake /proc; connected also at the daemon.
func (g *guarded) process(pid int, pod, container string, connected bool, environment ...string) {
	g.Helper()
	dir := filepath.Join(g.proc, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		g.Fatal(err)
	}
	cgroup := fmt.Sprintf("0::/kubepods/burstable/pod%s/%s\n", pod, strings.Repeat(container, 64))
	for name, content := range map[string]string{"cgroup": cgroup, "environ": strings.Join(environment, "\x00") + "\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			g.Fatal(err)
		}
	}
	if connected {
		if _, err := g.manager.control("GPU-a").ask(g.Context(), fmt.Sprint("fake_connect ", pid)); err != nil {
			g.Fatal(err)
		}
	}
}

func (g *guarded) check(processes ...device.Process) []Finding {
	return g.guard.Check(g.Context(), []device.Sample{{UUID: "GPU-a", Processes: processes}, {UUID: "GPU-other", Processes: processes}})
}

// given is the environment that a share's container gets.
func given(s Share) []string { return Options{}.edits(gpu, s).Env }

func TestGuardHonest(t *testing.T) {
	g := newGuarded(t, GuardOptions{})
	g.process(100, podA, "a", true, given(share("a", 700, 81920))...)
	// It limits itself further, which is its own choice.
	g.process(200, podB, "b", true, "CUDA_MPS_PIPE_DIRECTORY="+ContainerPipe, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G")
	for range 3 {
		if got := g.check(device.Process{PID: 100, MemoryMiB: 82000}, device.Process{PID: 200, MemoryMiB: 30000}, device.Process{PID: 300, MemoryMiB: 9999}); len(got) != 0 {
			t.Errorf("findings %+v", got)
		}
	}
}

// Two processes that each keep to the limit and together do not: the larger is ended,
// after two checks.
func TestGuardEndsOverMemory(t *testing.T) {
	g := newGuarded(t, GuardOptions{})
	for _, pid := range []int{200, 201} {
		g.process(pid, podB, "b", true, given(share("b", 300, 30720))...)
	}
	over := []device.Process{{PID: 200, MemoryMiB: 15000}, {PID: 201, MemoryMiB: 30000}}
	if got := g.check(over...); len(got) != 0 {
		t.Errorf("ended after one sample: %+v", got)
	}
	got := g.check(over...)
	if len(got) != 1 || got[0].Kind != OverMemory || got[0].PID != 201 || !got[0].Ended || got[0].Share.Allocation != "b" ||
		got[0].Detail != "2 processes use 45000 MiB, promised 30720 MiB" {
		t.Fatalf("findings %+v", got)
	}
	clients, err := g.manager.control("GPU-a").clients(t.Context())
	if _, still := clients[201]; err != nil || still || len(clients) != 1 {
		t.Errorf("clients %v, %v", clients, err)
	}
	// Below the limit again: strikes begin anew.
	g.check(device.Process{PID: 200, MemoryMiB: 15000})
	if got := g.check(device.Process{PID: 200, MemoryMiB: 40000}); len(got) != 0 {
		t.Errorf("findings %+v", got)
	}
}

func TestGuardCannotEnd(t *testing.T) {
	g := newGuarded(t, GuardOptions{Strikes: 1})
	g.behave("GPU-a", "immortal")
	g.process(200, podB, "b", true, given(share("b", 300, 30720))...)
	over := device.Process{PID: 200, MemoryMiB: 45000}
	got := g.check(over)
	if len(got) != 1 || got[0].Ended || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "still a client") {
		t.Fatalf("findings %+v", got)
	}
	if got := g.check(over); len(got) != 0 {
		t.Errorf("reported again: %+v", got)
	}
}

func TestGuardTamperedAndBypass(t *testing.T) {
	tests := []struct {
		name, says string
		change     string // of the environment; empty leaves the variable out
	}{
		{"more compute", `PERCENTAGE is "100", was given "30"`, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"},
		{"not a number", `PERCENTAGE is "NaN"`, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=NaN"},
		{"no percentage", `PERCENTAGE is ""`, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"},
		{"more memory", `MEM_LIMIT is "0=80G", was given "0=30720M"`, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G"},
		{"another device's memory", `MEM_LIMIT is "1=1G"`, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=1G"},
		{"overflow", `MEM_LIMIT`, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=9223372036854775807G"},
		{"another daemon", `PIPE_DIRECTORY is "/tmp/mine"`, "CUDA_MPS_PIPE_DIRECTORY=/tmp/mine"},
	}
	g := newGuarded(t, GuardOptions{})
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pid := 200 + i
			name, _, keep := strings.Cut(test.change, "=")
			var environment []string
			if keep {
				environment = append(environment, test.change) // the first counts
			}
			for _, variable := range given(share("b", 300, 30720)) {
				if keep || !strings.HasPrefix(variable, name+"=") {
					environment = append(environment, variable)
				}
			}
			g.process(pid, podB, "b", true, environment...)
			got := g.check(device.Process{PID: pid, MemoryMiB: 1})
			if len(got) != 1 || got[0].Kind != Tampered || !strings.Contains(got[0].Detail, test.says) {
				t.Fatalf("findings %+v, want %q", got, test.says)
			}
			if got := g.check(device.Process{PID: pid, MemoryMiB: 1}); len(got) != 0 {
				t.Errorf("reported again: %+v", got)
			}
		})
	}
	g.process(300, podB, "b", false, given(share("b", 300, 30720))...)
	if got := g.check(device.Process{PID: 300, MemoryMiB: 1}); len(got) != 1 || got[0].Kind != Bypass {
		t.Errorf("findings %+v", got)
	}
	// The number is given to another process, which is judged anew.
	g.check()
	if got := g.check(device.Process{PID: 300, MemoryMiB: 1}); len(got) != 1 {
		t.Errorf("findings %+v", got)
	}
}

// A pod with two shares of one GPU: the runtime's container ID decides which.
func TestGuardTwoContainersOfOnePod(t *testing.T) {
	name := func(pod, id string) (string, bool) {
		if pod == podB && strings.HasPrefix(id, "c") {
			return "side", true
		}
		return "main", true
	}
	g := newGuarded(t, GuardOptions{Strikes: 1, Container: name})
	// Of a pod with one share: its other container's process is not the share's.
	g.process(400, podB, "c", true)
	if got := g.check(device.Process{PID: 400, MemoryMiB: 99999}); len(got) != 0 {
		t.Errorf("findings %+v", got)
	}
	b, side := share("b", 200, 1024), share("side", 100, 2048)
	b.PodUID, side.PodUID, side.Container = podB, podB, "side"
	if err := g.manager.Keep(t.Context(), map[GPU][]Share{gpu: {b, side}}); err != nil {
		t.Fatal(err)
	}
	g.process(401, podB, "b", true, given(b)...)
	g.process(402, podB, "c", true, given(side)...)
	got := g.check(device.Process{PID: 401, MemoryMiB: 2048}, device.Process{PID: 402, MemoryMiB: 2048})
	if len(got) != 1 || got[0].PID != 401 || got[0].Share.Container != "main" {
		t.Errorf("findings %+v", got)
	}
}
