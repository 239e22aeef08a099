package records

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

const shared = "nvidia.com/gpu.shared"

func TestPreferred(t *testing.T) {
	all := []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"}
	k, p := &fakeKubelet{}, newFakePods(
		pod("first", want{name: "c", resource: gpu, count: 2, devices: []record.Device{gpuOf(4), gpuOf(1)}}),
		pod("second", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(3)}}),
		pod("other", want{name: "c", resource: gpu, count: 1}),
	)
	b := newTestBook(k, p, false)
	check := func(what string, got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	ctx := t.Context()
	// Kubelet serves second, although first was bound earlier: it lists second alone.
	k.admit("second")
	check("listed", b.Preferred(ctx, gpu, all, nil, 1), "GPU-c")
	check("another size", b.Preferred(ctx, gpu, all, nil, 2), "GPU-a", "GPU-c")
	k.give("second", "c", gpu, "GPU-c")
	left := []string{"GPU-a", "GPU-b", "GPU-d"}
	// A pod without a record keeps off what others were promised.
	k.admit("other")
	check("no record", b.Preferred(ctx, gpu, left, nil, 1), "GPU-a")
	k.give("other", "c", gpu, "GPU-a")
	k.admit("first")
	check("two", b.Preferred(ctx, gpu, []string{"GPU-b", "GPU-d"}, nil, 2), "GPU-b", "GPU-d")
	check("one of them taken", b.Preferred(ctx, gpu, []string{"GPU-d", "GPU-x"}, nil, 2), "GPU-d")
	check("must include", b.Preferred(ctx, gpu, []string{"GPU-a", "GPU-b", "GPU-d"}, []string{"GPU-a"}, 2), "GPU-a", "GPU-d")
	// Kubelet does not answer: by the order of Bindings and what was answered before.
	k.away = true
	check("kubelet away", b.Preferred(ctx, gpu, all, nil, 2), "GPU-b", "GPU-d")
}

// TestPreferredWaitsForThePod: kubelet hears of a pod before the agent does.
func TestPreferredWaitsForThePod(t *testing.T) {
	k, p := &fakeKubelet{}, newFakePods()
	b := newTestBook(k, p, false)
	b.o.Patience = 10 * time.Second
	k.admit("late")
	go p.set(pod("late", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(3)}}))
	if got := b.Preferred(t.Context(), gpu, []string{"GPU-a", "GPU-b", "GPU-c"}, nil, 1); !slices.Equal(got, []string{"GPU-c"}) {
		t.Errorf("got %v", got)
	}
	// One that never comes is waited for once.
	b.o.Patience = 20 * time.Millisecond
	k.admit("static")
	b.Preferred(t.Context(), gpu, []string{"GPU-a"}, nil, 1)
	b.o.Patience = time.Hour
	b.Preferred(t.Context(), gpu, []string{"GPU-a"}, nil, 1)
}

// TestPreferredTurns: a pod without a record gets a turn of the GPU that is in use already,
// or of the one with the fewest tenants where turns are to be distributed.
func TestPreferredTurns(t *testing.T) {
	asks := want{name: "c", resource: shared, count: 1}
	for distributed, want := range map[bool]string{false: "GPU-b::3", true: "GPU-a::0"} {
		k, p := &fakeKubelet{}, newFakePods(pod("other", asks))
		b := newTestBook(k, p, true)
		b.o.Distributed = distributed
		k.admit("other")
		// Of GPU-b one turn is left.
		if got := b.Preferred(t.Context(), shared, []string{"GPU-a::0", "GPU-a::1", "GPU-a::2", "GPU-b::3"}, nil, 1); !slices.Equal(got, []string{want}) {
			t.Errorf("distributed %v: %v, want %s", distributed, got, want)
		}
	}
}

func TestPreferredParts(t *testing.T) {
	k, p := &fakeKubelet{}, newFakePods(
		pod("turns", want{name: "c", resource: shared, count: 2, devices: []record.Device{turnOf(3), turnOf(1)}}),
		pod("slices", want{name: "c", resource: "nvidia.com/mig-1g.18gb", count: 1, devices: []record.Device{{Index: 2, UUID: "GPU-m", MIG: "1g.18gb", Start: 2}}}),
		pod("whole", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}}),
	)
	b := newTestBook(k, p, true)
	k.admit("turns")
	got := b.Preferred(t.Context(), shared, []string{"GPU-a::0", "GPU-b::2", "GPU-b::3", "GPU-c::1"}, nil, 2)
	if slices.Sort(got); !slices.Equal(got, []string{"GPU-b::2", "GPU-c::1"}) {
		t.Errorf("turns: %v", got)
	}
	k.end("turns")
	k.admit("slices")
	if got := b.Preferred(t.Context(), "nvidia.com/mig-1g.18gb", []string{"GPU-m::mig-1g.18gb@0", "GPU-m::mig-1g.18gb@2", "GPU-m::mig-1g.18gb@3"}, nil, 1); !slices.Equal(got, []string{"GPU-m::mig-1g.18gb@2"}) {
		t.Errorf("slices: %v", got)
	}
	k.end("slices")
	k.admit("whole")
	if got := b.Preferred(t.Context(), gpu, []string{"GPU-a::0", "GPU-b::2"}, nil, 1); !slices.Equal(got, []string{"GPU-b::2"}) {
		t.Errorf("a whole card sold by amounts: %v", got)
	}
}

// TestPack: no record. Fewest free turns first, different GPUs, what nothing excludes,
// near to each other.
func TestPack(t *testing.T) {
	k, p := &fakeKubelet{}, newFakePods(pod("small", want{name: "c", resource: "nvidia.com/mig-1g.18gb", count: 1}))
	b := newTestBook(k, p, false)
	prefer := func(resource string, available []string, size int) []string {
		out := b.Preferred(t.Context(), resource, available, nil, size)
		slices.Sort(out)
		return out
	}
	if got := prefer(shared, []string{"GPU-a::0", "GPU-a::1", "GPU-b::3"}, 1); !slices.Equal(got, []string{"GPU-b::3"}) {
		t.Errorf("fewest free turns: %v", got)
	}
	if got := prefer(shared, []string{"GPU-a::0", "GPU-a::1", "GPU-b::3"}, 2); !slices.Equal(got, []string{"GPU-a::0", "GPU-b::3"}) {
		t.Errorf("different GPUs: %v", got)
	}
	if got := prefer(gpu, []string{"GPU-a", "GPU-b", "GPU-d"}, 2); !slices.Equal(got, []string{"GPU-b", "GPU-d"}) {
		t.Errorf("one NUMA node: %v", got)
	}
	k.give("small", "c", "nvidia.com/mig-1g.18gb", "GPU-m::mig-1g.18gb@1")
	if got := prefer("nvidia.com/mig-3g.71gb", []string{"GPU-m::mig-3g.71gb@0", "GPU-m::mig-3g.71gb@4"}, 1); !slices.Equal(got, []string{"GPU-m::mig-3g.71gb@4"}) {
		t.Errorf("not over another slice: %v", got)
	}
	if got := prefer(gpu, []string{"nonsense", "GPU-unknown"}, 1); len(got) != 0 {
		t.Errorf("unknown IDs: %v", got)
	}
}

func TestReserve(t *testing.T) {
	k := &fakeKubelet{}
	p := newFakePods(
		pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}),
		pod("b", want{name: "c", resource: shared, count: 1, devices: []record.Device{turnOf(1)}}),
		pod("w", want{name: "warm", resource: gpu, count: 1, init: true}, want{name: "c", resource: gpu, count: 1}),
	)
	b := newTestBook(k, p, false)
	ok := func(resource string, ids ...string) {
		t.Helper()
		if err := b.Reserve(t.Context(), resource, ids); err != nil {
			t.Errorf("%s %v: %v", resource, ids, err)
		}
	}
	refused := func(words, resource string, ids ...string) {
		t.Helper()
		if err := b.Reserve(t.Context(), resource, ids); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s %v: %v, want %q", resource, ids, err, words)
		}
	}
	// Which pod asks is not known, so the holder is named in logs only.
	holds := func(who, resource string, ids ...string) {
		t.Helper()
		var excluded *Excluded
		if err := b.Reserve(t.Context(), resource, ids); !errors.As(err, &excluded) || !strings.Contains(excluded.By, who) || strings.Contains(err.Error(), who) {
			t.Errorf("%s %v: %v, want it to be held by %s", resource, ids, err, who)
		}
	}
	k.admit("a")
	ok(gpu, "GPU-a")
	k.give("a", "c", gpu, "GPU-a")
	holds("ns/a", gpu, "GPU-a")       // twice
	holds("ns/a", shared, "GPU-a::0") // a turn on a whole one
	k.admit("b")
	ok(shared, "GPU-b::0")
	k.give("b", "c", shared, "GPU-b::0")
	holds("ns/b", gpu, "GPU-b") // a whole one with a turn on it
	ok(shared, "GPU-b::1")      // another turn
	refused("asked for twice", gpu, "GPU-c", "GPU-c")
	refused("the same container", "nvidia.com/mig-3g.71gb", "GPU-m::mig-3g.71gb@4", "MIG-i")
	refused("names no device", gpu, "GPU-unknown")
	refused("names no device", gpu, "GPU-a::mig-1g.18gb@0")
	refused("does not name", gpu, "GPU-a-1")
	refused("names no device", gpu+"x", "")
	// An init container's device goes on to the next container of its pod.
	k.admit("w")
	ok(gpu, "GPU-c")
	ok(gpu, "GPU-c")
	k.give("w", "c", gpu, "GPU-c")
	holds("ns/w", gpu, "GPU-c")
	// When the pod is gone, all is free: of the init container, too.
	k.end("w")
	p.remove("w")
	ok(shared, "GPU-c::0")
	// An answer that kubelet did not keep counts for a second, then it is free.
	begun := time.Now()
	ok(gpu, "GPU-c")
	if time.Since(begun) < unlisted/2 {
		t.Error("an answer that kubelet had no time to note was given away at once")
	}
}

// TestReserveWithoutKubelet: what was known counts; without anything known the agent refuses.
func TestReserveWithoutKubelet(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { now = now.Add(time.Second); return now } // patience ends soon
	k, p := &fakeKubelet{}, newFakePods(pod("a", want{name: "c", resource: gpu, count: 1}))
	b := newTestBook(k, p, false)
	b.o.Now = clock
	k.away = true
	if err := b.Reserve(t.Context(), gpu, []string{"GPU-a"}); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("%v", err)
	}
	k.away = false
	k.give("a", "c", gpu, "GPU-a")
	if _, err := b.Holdings(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.away = true
	var excluded *Excluded
	if err := b.Reserve(t.Context(), gpu, []string{"GPU-a"}); !errors.As(err, &excluded) {
		t.Errorf("%v", err)
	}
	if err := b.Reserve(t.Context(), gpu, []string{"GPU-b"}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestLostCheckpoint: kubelet forgot the devices of a pod that it still lists.
func TestLostCheckpoint(t *testing.T) {
	k, p := &fakeKubelet{}, newFakePods(pod("a", want{name: "c", resource: gpu, count: 1}))
	b := newTestBook(k, p, false)
	k.give("a", "c", gpu, "GPU-a")
	if _, err := b.Holdings(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.admit("a") // listed, without devices
	if err := b.Reserve(t.Context(), gpu, []string{"GPU-a"}); err == nil {
		t.Error("given twice")
	}
}

func TestIdentify(t *testing.T) {
	half := gpuOf(1)
	half.MemoryMiB, half.ComputeMilli = 500, 300
	k := &fakeKubelet{}
	p := newFakePods(
		pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{half}, limits: map[string]string{"nvidia.com/gpumem": "500"}}),
		pod("w", want{name: "warm", resource: shared, count: 1, init: true}, want{name: "c", resource: shared, count: 1}),
		pod("f", want{name: "warm", resource: shared, count: 2, init: true}, want{name: "c", resource: shared, count: 1}),
	)
	b := newTestBook(k, p, true)
	// Kubelet took a slot on another card than recorded: the amount goes with it.
	k.give("a", "c", gpu, "GPU-c::7")
	h, err := b.Identify(t.Context(), gpu, []string{"GPU-c::7"})
	if err != nil || h.Pod.Name != "a" || h.Path != "spec.containers[0]" || len(h.Devices) != 1 || h.Devices[0] != (record.Device{Index: 3, UUID: "GPU-c", MemoryMiB: 500, ComputeMilli: 300}) {
		t.Fatalf("%+v, %v", h, err)
	}
	// An init container and the next one hold the same.
	k.admit("w")
	for range 2 {
		if err := b.Reserve(t.Context(), shared, []string{"GPU-a::0"}); err != nil {
			t.Fatal(err)
		}
	}
	k.give("w", "c", shared, "GPU-a::0")
	for _, want := range []string{"warm", "c", "c"} {
		h, err := b.Identify(t.Context(), shared, []string{"GPU-a::0"})
		if err != nil || h.Container != want {
			t.Fatalf("%+v, %v, want %s", h, err, want)
		}
		b.MarkStarted(h)
	}
	// An init container that another life of the agent answered: its pod has one of its
	// devices.
	k.give("f", "c", shared, "GPU-b::1")
	h, err = b.Identify(t.Context(), shared, []string{"GPU-a::1", "GPU-b::1"})
	if err != nil || h.Pod.Name != "f" || h.Container != "warm" || !h.Init {
		t.Fatalf("%+v, %v", h, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Identify(ctx, gpu, []string{"GPU-d"}); err == nil || !strings.Contains(err.Error(), "lists no container") {
		t.Errorf("%v", err)
	}
}

func TestWithhold(t *testing.T) {
	k, p := &fakeKubelet{}, newFakePods(pod("a", want{name: "c", resource: shared, count: 1}))
	b := newTestBook(k, p, false)
	k.give("a", "c", shared, "GPU-a::0")
	b.o.Claimed = func() []Claimed { return []Claimed{{Devices: []record.Device{gpuOf(2)}}} }
	got, err := b.Withhold(t.Context(), []device.Offer{
		{Resource: gpu, Devices: []device.Sold{{ID: "GPU-a", Healthy: true}, {ID: "GPU-b", Healthy: true}, {ID: gpuOf(2).UUID, Healthy: true}}},
		{Resource: shared, Devices: []device.Sold{{ID: "GPU-a::0", Healthy: true}, {ID: "GPU-a::1", Healthy: true}, {ID: "GPU-b::0"}}},
	})
	var healthy []bool
	for _, o := range got {
		for _, d := range o.Devices {
			healthy = append(healthy, d.Healthy)
		}
	}
	if err != nil || !slices.Equal(healthy, []bool{false, true, false, true, true, false}) {
		t.Errorf("%v, %v", healthy, err)
	}
}

// TestToldTo: a message on a pod names holders of its own namespace alone.
func TestToldTo(t *testing.T) {
	h := &Held{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "secret"}}, Container: "main"}
	if got := h.ToldTo("a"); got != "pod a/secret, container main" {
		t.Error(got)
	}
	if got := h.ToldTo("b"); got != "a pod of another namespace" {
		t.Error(got)
	}
	if got := (&Held{}).ToldTo("b"); got != "a container that is being started" {
		t.Error(got)
	}
}
