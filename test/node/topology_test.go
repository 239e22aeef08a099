package node

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// topologyPolicies and topologyScopes are all that kubelet's Topology Manager has.
var (
	topologyPolicies = []string{"none", "best-effort", "restricted", "single-numa-node"}
	topologyScopes   = []string{"container", "pod"}
)

// topologyWorld is a node with two NUMA nodes of four devices each.
type topologyWorld struct {
	*Node
	t *testing.T
	// pod makes a pod with one container for each number of devices: main, second.
	pod func(name string, devices ...int64) *v1.Pod
	// numa are the NUMA nodes of the devices that a running container has.
	numa func(pod *v1.Pod, container string) []int
}

// check shows that kubelet aligns, and refuses, as the policy says: that it was told
// where the devices are, and that the choice made for it lies within what it allows.
func (w topologyWorld) check(policy, scope string) {
	w.t.Helper()
	aligned := policy != "none"
	strict := policy == "restricted" || policy == "single-numa-node"

	// Three on each NUMA node leave one free on each: no aligned place for two.
	var places []int
	for _, name := range []string{"three-0", "three-1"} {
		w.Create(w.pod(name, 3))
		at := w.numa(w.AwaitRunning(name), "main")
		places = append(places, at[0])
		if len(at) != 3 || aligned && len(slices.Compact(slices.Sorted(slices.Values(at)))) != 1 {
			w.t.Errorf("%s: 3 devices are on NUMA nodes %v", name, at)
		}
	}
	if aligned && places[0] == places[1] {
		w.t.Errorf("twice 3 of 4 devices are on NUMA node %d", places[0])
	}
	w.Create(w.pod("pair", 2))
	w.expect("pair", aligned && strict)
	w.Delete("three-0", "three-1", "pair")

	// All eight, half for each container: by container each half has a NUMA node for
	// itself; by pod there is none for all.
	w.Create(w.pod("halves", 4, 4))
	if w.expect("halves", policy == "single-numa-node" && scope == "pod") && aligned && scope == "container" {
		pod := w.Get("halves")
		first, second := w.numa(pod, "main"), w.numa(pod, "second")
		if len(slices.Compact(first)) != 1 || len(slices.Compact(second)) != 1 || first[0] == second[0] {
			w.t.Errorf("halves are on NUMA nodes %v and %v", first, second)
		}
	}
	w.Delete("halves")
}

// expect waits until kubelet has taken or refused a pod; true if it was taken.
func (w topologyWorld) expect(name string, refused bool) bool {
	w.t.Helper()
	p := w.AwaitPod(name, "was taken or refused", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodRunning || p.Status.Phase == v1.PodFailed
	})
	if got := p.Status.Phase == v1.PodFailed; got != refused || got && p.Status.Reason != "TopologyAffinityError" {
		w.t.Errorf("%s: refused is to be %v: %s", name, refused, describe(p))
	}
	return p.Status.Phase == v1.PodRunning
}

// numaOf is the NUMA node of device i where eight are on two.
func numaOf(i int) int { return i / 4 }
