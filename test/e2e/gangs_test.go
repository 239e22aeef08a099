package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestGangs: where gangs come from, how they start, and what their owners are told
// while they wait.
func TestGangs(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a, count: 4, gpu: {model: A100-80GB, count: 8}, rack: {size: 4}}
- {name: b, count: 2, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`)
	w.Scheduler(nil)
	w.each(t, []step{
		{"WaitsForMembers", waitsForMembers}, {"WaitsForQuota", waitsForQuota}, {"WaitsForCapacity", waitsForCapacity},
		{"NeverFits", neverFits}, {"UnknownQueue", noSuchQueue}, {"BadLabels", badLabels}, {"Elastic", elastic},
		{"OneRack", oneRack}, {"Repair", repaired}, {"MemberGone", memberGone}, {"Finished", finished}, {"HeldByGates", heldByGates},
		{"Learned", learned}, {"OwnRules", ownRules}, {"Apart", apart}, {"NextRun", nextRun}, {"BadMember", badMember},
		{"NoLongerShown", noLongerShown}, {"BindingRefused", bindingRefused}, {"NoExtraWrites", noExtraWrites},
	})
}

// waitsForMembers: three of four members wait, and their owner is told, not an
// autoscaler; with the fourth all start, on one node.
func waitsForMembers(w *world) {
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("m-%d", i), 2, cluster.Gang("m", 4)))
	}
	w.Event("Pod", "m-0", "waits for members: 3 of 4 exist")
	w.notShown("m-0")
	w.noneBound("m-", time.Second)
	w.Create(pod("m-3", 2, cluster.Gang("m", 4)))
	if nodes := w.gangNodes("m-", 4); len(nodes) != 1 {
		w.T.Errorf("a gang of 8 GPUs is on %d nodes: %v", len(nodes), nodes)
	}
}

// waitsForQuota: what a queue may not use waits without being shown to an autoscaler,
// and starts when the queue has room.
func waitsForQuota(w *world) {
	w.AddQueue("small", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	w.createGang("first", 2, 2, cluster.Queue("small"))
	w.gangNodes("first-", 2)
	w.createGang("second", 2, 1, cluster.Queue("small"))
	w.Event("Pod", "second-0", "waits for quota: queue small may use 4 nvidia GPUs, 4 nvidia GPUs in use, needs 2")
	w.notShown("second-0")
	w.createGang("third", 3, 2, cluster.Queue("small"))
	w.Event("Pod", "third-0", "can never start: queue small may use 4 nvidia GPUs", "needs 6")
	w.notShown("third-0")
	w.Delete("first-0")
	w.Delete("first-1")
	w.gangNodes("second-", 2)
}

// waitsForCapacity: a gang that the cluster has no room for is shown as unschedulable,
// every member, with the reason; and starts when there is room.
func waitsForCapacity(w *world) {
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5)
	w.createGang("big", 2, 8)
	for _, name := range []string{"big-0", "big-1"} {
		w.Waits(name, "waits for capacity: needs 2 members, 1 can be placed")
	}
	p := w.Get("big-0")
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Reason != v1.PodReasonUnschedulable {
			w.T.Errorf("the reason is %s", c.Reason)
		}
	}
	w.createGang("big2", 2, 8) // one like it is told as well
	w.Waits("big2-0", "waits for capacity")
	w.Create(pod("single", 8)) // and may not be kept from what is free
	w.Placed("single")
	w.noneBound("big-", 500*time.Millisecond)
	w.Delete("full-0")
	w.Delete("single")
	w.gangNodes("big-", 2)
}

// neverFits: a gang larger than the cluster says so.
func neverFits(w *world) {
	w.createGang("huge", 7, 8)
	w.Waits("huge-0", "can never fit on the nodes there are: needs 7 members, 6 can be placed")
	w.Create(pod("small", 1))
	w.Placed("small")
}

// noSuchQueue: a queue that does not exist is named, and the pods start once it is made.
func noSuchQueue(w *world) {
	w.createGang("lost", 2, 1, cluster.Queue("nowhere"))
	w.Event("Pod", "lost-0", `there is no queue "nowhere"`)
	w.notShown("lost-1")
	w.AddQueue("nowhere", "{weight: 1}")
	w.gangNodes("lost-", 2)
}

// badLabels: an invalid label is refused by the field's name; an edit cures it.
func badLabels(w *world) {
	size := "metadata.labels[" + names.LabelGangSize + "]: "
	w.Create(pod("zero", 1, cluster.Gang("zero", 0)))
	w.Create(pod("text", 1, cluster.Gang("text", "four")))
	w.Create(pod("missing", 1, cluster.Label(names.LabelGang, "x")))
	w.Create(pod("whose", 1, cluster.Label(names.LabelGangSize, "3")))
	w.Waits("zero", size, `"0" is not a number from 1 to`)
	w.Waits("text", size, `"four" is not a number`)
	w.Waits("missing", size, "missing")
	w.Waits("whose", size, names.LabelGang)
	for _, name := range []string{"zero", "whose"} {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"1"}}}`, names.LabelGangSize)
		w.Patch(cluster.Pods, name, patch)
		w.Placed(name)
	}
}

// elastic: a PodGroup with a minimum of 2 of 4 starts with what there is room for, and
// grows.
func elastic(w *world) {
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5)
	w.Create(pod("more", 4))
	w.Placed("more")
	w.Apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: elastic, namespace: default}, spec: {minMember: 2}}`)
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("e-%d", i), 2, cluster.Annotate(names.AnnotationKubeGroup, "elastic")))
	}
	w.gangNodes("e-", 2)
	w.Waits("e-3", "waits for capacity")
	w.Delete("more")
	w.gangNodes("e-", 4)
}

// oneRack: a required level holds for all members together, and for those that come
// back.
func oneRack(w *world) {
	rack := cluster.Annotate(names.AnnotationTopology, "required=rack")
	w.Create(pod("in-b", 1, cluster.On(v1.LabelHostname, "b-0")))
	w.Placed("in-b")
	w.createGang("wide", 2, 8, rack) // rb has 15 left
	for node := range w.gangNodes("wide-", 2) {
		if !strings.HasPrefix(node, "a-") {
			w.T.Errorf("a member is on %s", node)
		}
	}
	w.createGang("wider", 3, 8, rack) // ra has two nodes left
	w.Waits("wider-0", "needs 3 members in one rack")
	w.noneBound("wider-", time.Second)
	w.createGang("never", 5, 8, rack)
	w.Waits("never-0", "can never fit on the nodes there are: needs 5 members in one rack")
	w.Delete("wide-0")
	w.gangNodes("wider-", 3)
}

// repaired: a member that comes back goes where its gang is, before others.
func repaired(w *world) {
	rack := cluster.Annotate(names.AnnotationTopology, "required=rack")
	w.createGang("r", 2, 8, rack)
	nodes := w.gangNodes("r-", 2)
	var racked string
	for node := range nodes {
		racked = node[:1]
	}
	w.Delete("r-1")
	w.Create(pod("r-1", 8, cluster.Gang("r", 2), rack))
	if node, _ := w.Placed("r-1"); !strings.HasPrefix(node, racked) {
		w.T.Errorf("repaired on %s, the others are in rack r%s", node, racked)
	}
}

// memberGone: a gang that waits for room loses a member before it starts: nothing is
// held for it.
func memberGone(w *world) {
	w.createGang("x", 6, 8)
	w.Delete("x-5")
	w.createGang("y", 6, 8)
	w.Eventually("one of the gangs runs whole", func() (bool, string) {
		x, y := 0, 0
		for _, p := range w.AllPods() {
			switch {
			case p.Spec.NodeName == "":
			case gangOf(&p) == "x":
				x++
			default:
				y++
			}
		}
		// x may have been bound before its member went.
		return x == 0 && y == 6 || x >= 5 && y == 0, fmt.Sprintf("x %d, y %d", x, y)
	})
}

// finished: members that succeeded are not missed when another has to come back.
func finished(w *world) {
	w.createGang("f", 3, 1)
	w.gangNodes("f-", 3)
	for i := range 2 {
		w.Finish(fmt.Sprintf("f-%d", i))
	}
	w.Delete("f-2")
	w.Create(pod("f-2", 1, cluster.Gang("f", 3)))
	w.Placed("f-2")
}

// learned: in a queue of shortest job first, what ran briefly before goes first.
func learned(w *world) {
	w.Apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: short, annotations: {tangram.dev/order: sjf}}, spec: {weight: 1, capability: {nvidia.com/gpu: 8}}}")
	of := func(image string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Image = image }
	}
	for i, image := range []string{"long", "brief"} { // one after the other, so that they are told apart
		name := fmt.Sprintf("ran-%d", i)
		w.Create(pod(name, 8, cluster.Queue("short"), of(image)))
		w.Placed(name)
		w.boundBefore(name, map[string]time.Duration{"long": time.Hour, "brief": time.Minute}[image])
		w.Finish(name)
	}
	w.Create(pod("blocks", 8, cluster.Queue("short")))
	w.Placed("blocks")
	w.Create(pod("long", 8, cluster.Queue("short"), of("long")))
	w.Event("Pod", "long", "waits for quota")
	w.Create(pod("brief", 8, cluster.Queue("short"), of("brief")))
	w.Event("Pod", "brief", "waits for quota")
	w.Finish("blocks")
	w.Placed("brief")
	w.noneBound("long", time.Second)
}

// boundBefore makes the API tell that a pod was bound so much earlier.
func (w *world) boundBefore(name string, by time.Duration) {
	w.T.Helper()
	p := w.Get(name)
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled {
			c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-by))
		}
	}
	w.UpdateStatus(p)
}

// heldByGates: a member that is not ready to be scheduled does not exist yet.
func heldByGates(w *world) {
	w.Create(pod("g-0", 8, cluster.Gang("g", 2)))
	w.Create(pod("g-1", 8, cluster.Gang("g", 2), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/data"}} }))
	w.Event("Pod", "g-0", "waits for members: 1 of 2 exist")
	w.createGang("all", 6, 8) // nothing is held meanwhile
	w.gangNodes("all-", 6)
	for i := range 2 {
		w.Delete(fmt.Sprintf("all-%d", i))
	}
	if _, err := w.Client.CoreV1().Pods("default").Patch(context.Background(), "g-1", "application/strategic-merge-patch+json", []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{}); err != nil {
		w.T.Fatal(err)
	}
	w.gangNodes("g-", 2)
}

// ownRules: what only kube-scheduler's filters know is learned: members with rules of
// their own, a node they may not use.
func ownRules(w *world) {
	on := func(node string) func(*v1.Pod) {
		return cluster.On(v1.LabelHostname, node)
	}
	w.Create(pod("s-0", 1, cluster.Gang("s", 3), on("a-1")))
	w.Create(pod("s-1", 1, cluster.Gang("s", 3), on("b-1")))
	w.Create(pod("s-2", 1, cluster.Gang("s", 3)))
	w.gangNodes("s-", 3)
	if a, b := w.Get("s-0").Spec.NodeName, w.Get("s-1").Spec.NodeName; a != "a-1" || b != "b-1" {
		w.T.Errorf("s-0 is on %s, s-1 on %s", a, b)
	}
	w.createGang("v", 2, 1, func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	})
	w.Waits("v-0", `persistentvolumeclaim "missing" not found`)
}

// noExtraWrites: a member's way costs a create and a binding: no nomination is
// written for the moment it waits for the others.
func noExtraWrites(w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	updates := make(chan string, 1000)
	_, err := w.Follow(ctx, func(before, after *v1.Pod) {
		if before != nil && after != nil && before.ResourceVersion != after.ResourceVersion {
			updates <- fmt.Sprintf("%s: node %q, nominated %q", after.Name, after.Spec.NodeName, after.Status.NominatedNodeName)
		}
	})
	w.Must(err)
	w.createGang("n", 16, 1)
	w.gangNodes("n-", 16)
	time.Sleep(time.Second)
	if len(updates) != 16 {
		for range min(len(updates), 40) {
			w.T.Log(<-updates)
		}
		w.T.Errorf("%d updates of 16 pods", len(updates))
	}
}
