package records

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
)

// runs makes the API server say that containers of a pod run, and no others.
func runs(p *v1.Pod, containers ...string) *v1.Pod {
	p = p.DeepCopy()
	p.Status = v1.PodStatus{Phase: v1.PodRunning}
	for _, c := range containers {
		s := v1.ContainerStatus{Name: c, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
	return p
}

// hurried is a book whose patience ends with its third look at the clock.
func hurried(k *fakeKubelet, p *fakePods) *Book {
	b, now := newTestBook(k, p, false), time.Unix(0, 0)
	b.o.Now = func() time.Time { now = now.Add(2 * time.Second); return now }
	return b
}

func excluded(t *testing.T, b *Book, who, resource string, ids ...string) {
	t.Helper()
	var e *Excluded
	if err := b.Reserve(t.Context(), resource, ids); !errors.As(err, &e) || !strings.Contains(e.By, who) {
		t.Errorf("%s %v: %v, want it to be held by %s", resource, ids, err, who)
	}
}

func given(t *testing.T, b *Book, resource string, ids ...string) {
	t.Helper()
	if err := b.Reserve(t.Context(), resource, ids); err != nil {
		t.Errorf("%s %v: %v", resource, ids, err)
	}
}

// TestKubeletStarts: after its start kubelet lists no pods until it has heard of them.
// Their containers run on and keep what they hold.
func TestKubeletStarts(t *testing.T) {
	a := runs(pod("a", want{name: "c", resource: gpu, count: 1}), "c")
	k, p := &fakeKubelet{}, newFakePods(a)
	b := hurried(k, p)
	k.give("a", "c", gpu, "GPU-a")
	if all, err := b.AllHoldings(t.Context()); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	k.end("a") // it has not heard of it
	if all, err := b.AllHoldings(t.Context()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("taken for all that is held: %+v", all)
	}
	if all, err := b.Holdings(t.Context()); err != nil || len(all) != 1 || all[0].IDs[0] != "GPU-a" {
		t.Errorf("%+v, %v", all, err)
	}
	excluded(t, b, "ns/a", shared, "GPU-a::0")

	// An agent that starts meanwhile does not know what a pod without a record holds, but
	// that something is missing.
	if all, err := hurried(k, p).AllHoldings(t.Context()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("taken for all that is held: %+v", all)
	}

	// Nor does one that has not read the pods.
	p.unread = true
	k.give("a", "c", gpu, "GPU-a")
	if all, err := hurried(k, p).AllHoldings(t.Context()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("taken for all that is held: %+v", all)
	}
	p.unread = false

	// Kubelet has heard of it.
	k.give("a", "c", gpu, "GPU-a")
	if all, err := b.AllHoldings(t.Context()); err != nil || len(all) != 1 || all[0].forgotten {
		t.Errorf("%+v, %v", all, err)
	}
	// The pod is over: kubelet does not list it, and the API server knows that it ended.
	k.end("a")
	p.set(runs(a))
	if all, err := b.AllHoldings(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	given(t, b, shared, "GPU-a::0")
}

// TestReserveWaitsForTheEnd: kubelet gives a device on as soon as a pod is over; the agent
// may hear a moment later that it is.
func TestReserveWaitsForTheEnd(t *testing.T) {
	a := runs(pod("a", want{name: "c", resource: gpu, count: 1}), "c")
	k, p := &fakeKubelet{}, newFakePods(a)
	b := newTestBook(k, p, false)
	k.give("a", "c", gpu, "GPU-a")
	if _, err := b.Holdings(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.end("a")
	time.AfterFunc(10*time.Millisecond, func() { p.remove("a") })
	given(t, b, gpu, "GPU-a")
}

// TestLostCheckpointAndAgent: kubelet has lost which container holds what, and the agent was started
// after that. The records of pods whose containers run still say it.
func TestLostCheckpointAndAgent(t *testing.T) {
	whole := runs(pod("whole", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), "c")
	turn := runs(pod("turn", want{name: "c", resource: shared, count: 1, devices: []record.Device{turnOf(1)}}), "c")
	slice := runs(pod("slice", want{name: "c", resource: "nvidia.com/mig-1g.18gb", count: 1, devices: []record.Device{{Index: 2, UUID: "GPU-m", MIG: "1g.18gb", Start: 2}}}), "c")
	init := runs(pod("init", want{name: "warm", resource: gpu, count: 1, init: true, devices: []record.Device{gpuOf(3)}}, want{name: "c"}), "warm")
	waits := pod("waits", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(4)}})
	k, p := &fakeKubelet{}, newFakePods(whole, turn, slice, init, waits)
	for _, name := range []string{"whole", "turn", "slice", "init", "waits"} {
		k.admit(name) // listed, without devices
	}
	b := hurried(k, p)
	excluded(t, b, "ns/whole", gpu, "GPU-a")
	excluded(t, b, "ns/whole", shared, "GPU-a::0")
	excluded(t, b, "ns/turn", gpu, "GPU-b")
	excluded(t, b, "ns/slice", "nvidia.com/mig-1g.18gb", "GPU-m::mig-1g.18gb@2")
	excluded(t, b, "ns/init", shared, "GPU-c::0")
	given(t, b, shared, "GPU-b::0") // another turn
	given(t, b, gpu, "GPU-d")       // its record is a plan
	// What is withheld is not given in the first place.
	if all, err := b.AllHoldings(t.Context()); err != nil || len(all) < 4 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestForgedRecord: a record does not count against what kubelet lists for another pod,
// nor for a container that has its devices by a claim.
func TestForgedRecord(t *testing.T) {
	honest := runs(pod("honest", want{name: "c", resource: gpu, count: 1}), "c")
	forged := runs(pod("forged", want{name: "warm", resource: gpu, count: 1, init: true, devices: []record.Device{gpuOf(0)}}, want{name: "c"}), "warm")
	claims := runs(pod("claims", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}}), "c")
	claims.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{RequestMappings: []v1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: gpu}}}
	k, p := &fakeKubelet{}, newFakePods(honest, forged, claims)
	k.admit("forged")
	k.admit("claims")
	k.give("honest", "c", gpu, "GPU-a")
	all, err := newTestBook(k, p, false).AllHoldings(t.Context())
	if err != nil || len(all) != 1 || all[0].Pod.Name != "honest" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestForgottenIsTold: once, after a while, and not for a pod of which kubelet has only
// not heard yet.
func TestForgottenIsTold(t *testing.T) {
	a := runs(pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), "c")
	k, p := &fakeKubelet{}, newFakePods(a)
	b, now := newTestBook(k, p, false), time.Unix(0, 0)
	b.o.Now = func() time.Time { return now }
	var told []string
	c := NewCorrector(CorrectorOptions{Book: b, Problem: func(p Problem) { told = append(told, p.Reason+" "+p.Pod.Name) }})
	round := func(want ...string) {
		t.Helper()
		if n, err := c.Round(t.Context()); n != 0 || err != nil {
			t.Errorf("%d records written, %v", n, err)
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		now = now.Add(forgottenFor)
	}
	k.give("a", "c", gpu, "GPU-a")
	round()
	k.end("a")
	round()
	round()
	k.admit("a")
	round("ForgottenDevices a")
	round("ForgottenDevices a")
}

// TestForgottenIsNotDisplaced: the record of a pod whose container runs is no plan that
// could be changed, even if kubelet gave its device to another pod.
func TestForgottenIsNotDisplaced(t *testing.T) {
	first := runs(pod("first", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), "c")
	second := pod("second", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	corrections, problems := facts{node: "n", inv: testInventory(), amounts: func(string) bool { return false }}.plan([]*v1.Pod{first, second}, Listing{
		{Namespace: "ns", Name: "first"},
		{Namespace: "ns", Name: "second", Containers: []ListedContainer{{Name: "c", Devices: map[string][]string{gpu: {"GPU-a"}}}}},
	})
	if len(corrections) != 0 || len(problems) != 1 || problems[0].Reason != ReasonContested {
		t.Errorf("%+v, %+v", corrections, problems)
	}
}
