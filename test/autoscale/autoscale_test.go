package autoscale

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tangram-dev/tangram/api/names"
)

// TestMain lets all tests wait at the same time: they mostly do.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// TestKarpenter is everything about Karpenter, on one cluster.
func TestKarpenter(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"plain": plain, "rack": rack, "newrack": newRack, "onenode": oneNode, "none": none,
		"kept": kept, "running": running, "order": order,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// plain: a gang of 12 that need 8 GPUs each, with room for 9, gets exactly 3 nodes.
func plain(t *testing.T, w *world) {
	p := w.newPool(t, "plain", "Never", "r1", "r2")
	p.stock("r1", 9)
	p.bound(p.gang("g", 12, 12, 8)...)
	p.exactly(3, 0)
}

// rack: the same where all must share a rack, and 12 nodes are free in two racks: exactly 3
// nodes are added, in the rack with 9. Placeholders ask for them, cannot be bound by any client
// meanwhile, and are gone afterwards.
func rack(t *testing.T, w *world) {
	p := w.newPool(t, "rack", "Never", "r1", "r2")
	p.stock("r1", 9)
	p.stock("r2", 3)
	members := p.gang("g", 12, 12, 8, required("rack"))
	p.waits(names.ReasonWaitingForNodes, members[0])
	p.Complete("placeholders", func() string {
		for _, x := range p.placeholders() {
			err := w.Within(x.Namespace).Bind(x.Name, "rack-r2-0", nil)
			switch {
			case err == nil:
				t.Fatal("a placeholder was bound")
			case strings.Contains(err.Error(), "schedulingGates"):
				return ""
			case !apierrors.IsNotFound(err):
				t.Fatal(err)
			}
		}
		return "none was seen"
	})
	nodes := p.bound(members...)
	slices.Sort(nodes)
	if got := len(slices.Compact(nodes)); got != 12 {
		t.Errorf("on %d nodes, want 12", got)
	}
	for name, n := range p.nodes() {
		if n.Labels[rackLabel] != "r1" {
			t.Errorf("node %s was added in rack %s", name, n.Labels[rackLabel])
		}
	}
	p.Complete("placeholders are gone", func() string {
		if n := len(p.placeholders()); n > 0 {
			return fmt.Sprintf("%d are left", n)
		}
		return ""
	})
	p.exactly(3, 3)
}

// newRack: where no rack that has nodes can grow, nodes are asked for in one that has none
// yet: exactly as many as the gang needs, all in one.
func newRack(t *testing.T, w *world) {
	p := w.newPool(t, "newrack", "Never", "r8", "r9")
	p.stock("r1", 1)
	p.bound(p.gang("g", 2, 2, 8, required("rack"))...)
	in := map[string]bool{}
	for _, n := range p.nodes() {
		in[n.Labels[rackLabel]] = true
	}
	if len(in) != 1 {
		t.Errorf("nodes were added in racks %v", in)
	}
	p.exactly(2, 1)
}

// oneNode: two members of 3 GPUs must share a node, and 3 are free on each of two: one node
// is added, and both start on it.
func oneNode(t *testing.T, w *world) {
	p := w.newPool(t, "onenode", "Never", "r1")
	p.stock("r1", 2)
	p.pod("five0", 5)
	p.pod("five1", 5)
	p.bound("five0", "five1")
	nodes := p.bound(p.gang("g", 2, 2, 3, required("node"))...)
	if nodes[0] != nodes[1] || p.nodes()[nodes[0]] == nil {
		t.Errorf("on nodes %v", nodes)
	}
	p.exactly(1, 0)
}

// none: no node is added for a pod that waits for quota or members, or has a specification that
// no node can satisfy. A pod that waits for a node gets one, and there is no other.
func none(t *testing.T, w *world) {
	p := w.newPool(t, "none", "Never", "r1")
	quota := p.gang("quota", 2, 2, 8, func(x *v1.Pod) { x.Labels[names.LabelQueue] = "small" })
	quotaRack := p.gang("quotarack", 2, 2, 8, required("rack"), func(x *v1.Pod) { x.Labels[names.LabelQueue] = "small" })
	members := p.gang("members", 3, 2, 8)
	membersRack := p.gang("membersrack", 3, 2, 8, required("rack"))
	invalid := p.gang("invalid", 2, 2, 8, func(x *v1.Pod) { x.Annotations[names.AnnotationTopology] = "required=nonsense" })
	queue := p.gang("queue", 2, 2, 8, func(x *v1.Pod) { x.Labels[names.LabelQueue] = "unknown" })
	p.waits("WaitingForQuota", append(quota, quotaRack...)...)
	p.waits("WaitingForMembers", append(members, membersRack...)...)
	p.waits("Invalid", invalid...)
	p.waits("InvalidQueue", queue...)
	p.exactly(0, 0)
	if n := len(p.placeholders()); n > 0 {
		t.Errorf("%d placeholders stand for pods that do not wait for nodes", n)
	}
}

// kept: two nodes are empty, and one of them is kept for a gang for which a pod leaves a
// third one; the other is in a rack that the gang does not want. Karpenter removes that one
// and leaves the first alone; no node is added meanwhile. When the gang has started, no node
// is marked.
func kept(t *testing.T, w *world) {
	p := w.newPool(t, "kept", "0s", "r1", "r2")
	in := func(rack string) func(*v1.Pod) { return func(x *v1.Pod) { x.Spec.NodeSelector[rackLabel] = rack } }
	p.pod("victim", 8, in("r1"), func(x *v1.Pod) {
		x.Finalizers = []string{"test.tangram.dev/stay"}
		x.Annotations["tangram.dev/simulated-hang"] = "true" // until the finalizer goes
	})
	p.pod("filler", 8, in("r1"))
	p.pod("other", 8, in("r2"))
	nodes := p.bound("victim", "filler", "other")
	p.delete("filler")
	p.delete("other")
	members := p.gang("g", 2, 2, 8, in("r1"), func(x *v1.Pod) { x.Spec.PriorityClassName = "urgent" })
	p.waits("WaitingForVictims", members...)
	p.Complete("two nodes are kept", func() string {
		var marked []string
		for name, n := range p.nodes() {
			if n.Annotations[names.AnnotationDoNotDisrupt] == "true" && n.Annotations[names.AnnotationScaleDownDisabled] == "true" {
				marked = append(marked, name)
			}
		}
		if len(marked) != 2 || !slices.Contains(marked, nodes[0]) || !slices.Contains(marked, nodes[1]) {
			return fmt.Sprintf("marked are %v, want %v", marked, nodes[:2])
		}
		return ""
	})
	p.Complete("the empty node that is not kept is removed", func() string {
		if n := p.rented(); n != 2 {
			return fmt.Sprintf("there are %d nodes", n)
		}
		return ""
	})
	for _, name := range nodes[:2] {
		if n := p.nodes()[name]; n == nil || n.DeletionTimestamp != nil {
			t.Errorf("node %s is removed though it is kept", name)
		}
	}
	p.patch("victim", `{"metadata":{"finalizers":null}}`)
	p.delete("victim")
	p.bound(members...)
	p.Complete("no node is kept", func() string {
		for name, n := range p.nodes() {
			for _, key := range []string{names.AnnotationDoNotDisrupt, names.AnnotationScaleDownDisabled, names.AnnotationKept} {
				if _, there := n.Annotations[key]; there {
					return name + " has " + key
				}
			}
		}
		return ""
	})
	p.exactly(2, 0)
}

// running: two members of a gang and another pod hold 3 GPUs each, on three nodes where one
// would do. Karpenter empties the node of the other pod, and not those of the gang, though
// to move their pods would cost it less.
func running(t *testing.T, w *world) {
	p := w.newPool(t, "running", "0s", "r1")
	p.pod("five0", 5)
	p.pod("five1", 5)
	p.bound("five0", "five1")
	members := p.gang("g", 2, 2, 3)
	nodes := p.bound(members...)
	p.pod("five2", 5)
	p.bound("five2")
	p.pod("other", 3)
	other := p.bound("other")[0]
	if nodes[0] == nodes[1] || slices.Contains(nodes, other) || p.rented() != 3 {
		t.Fatalf("the gang is on nodes %v, the other pod on %s, of %d", nodes, other, p.rented())
	}
	for _, name := range []string{"five0", "five1", "five2"} {
		p.delete(name)
	}
	p.Complete("the node of the other pod is emptied", func() string {
		now := p.nodes()
		for _, node := range nodes {
			if now[node] == nil || now[node].DeletionTimestamp != nil {
				t.Fatalf("node %s is removed under a gang", node)
			}
		}
		if n := now[other]; n != nil && n.DeletionTimestamp == nil {
			return "not yet"
		}
		return ""
	})
	if again := p.bound(members...); !slices.Equal(nodes, again) {
		t.Errorf("on nodes %v, were on %v", again, nodes)
	}
}

// order: of two nodes that could be emptied, Karpenter empties the one with fewer GPUs in
// use, though it has more pods: by itself it goes by the number of pods.
func order(t *testing.T, w *world) {
	p := w.newPool(t, "order", "0s", "r1")
	p.pod("four", 4)
	p.pod("fillera", 4)
	many := p.bound("four", "fillera")[0]
	p.pod("one0", 1)
	p.pod("one1", 1)
	p.pod("fillerb", 6)
	few := p.bound("one0", "one1", "fillerb")
	if slices.Contains(few, many) || len(slices.Compact(few)) != 1 {
		t.Fatalf("on nodes %v and %s", few, many)
	}
	p.delete("fillera")
	p.delete("fillerb")
	p.Complete("a node is emptied", func() string {
		now := p.nodes()
		switch {
		case now[many] == nil || now[many].DeletionTimestamp != nil:
			t.Fatal("the node with 4 GPUs in use was emptied, the one with 2 was not")
		case now[few[0]] == nil || now[few[0]].DeletionTimestamp != nil:
			return ""
		}
		return "none yet"
	})
	if pod := p.get("four"); pod == nil || pod.Spec.NodeName != many || pod.DeletionTimestamp != nil {
		t.Error("the pod with 4 GPUs was moved")
	}
}
