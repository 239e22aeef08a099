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
	"github.com/tangram-dev/tangram/internal/local"
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
	w.scheduler(nil)
	clear := func(w *world) {
		if w.t.Failed() {
			for _, p := range w.pods() {
				w.t.Logf("%s on %q: %s", p.Name, p.Spec.NodeName, waitsFor(&p))
			}
		}
		now := int64(0)
		if err := w.client.CoreV1().Pods("default").DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.eventually("all pods are gone", 10*time.Second, func() (bool, string) { return len(w.pods()) == 0, "" })
	}
	for _, tt := range []struct {
		name string
		run  func(*world)
	}{
		{"WaitsForMembers", waitsForMembers}, {"WaitsForQuota", waitsForQuota}, {"WaitsForCapacity", waitsForCapacity},
		{"NeverFits", neverFits}, {"UnknownQueue", noSuchQueue}, {"BadLabels", badLabels}, {"Elastic", elastic},
		{"OneRack", oneRack}, {"Repair", repaired}, {"MemberGone", memberGone}, {"Finished", finished}, {"HeldByGates", heldByGates},
		{"Learned", learned}, {"OwnRules", ownRules}, {"Apart", apart}, {"NextRun", nextRun}, {"BadMember", badMember},
		{"NoLongerShown", noLongerShown}, {"BindingRefused", bindingRefused}, {"NoExtraWrites", noExtraWrites},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(func() { clear(w.within(t)) })
			tt.run(w.within(t))
		})
	}
}

// waitsForMembers: three of four members wait, and their owner is told, not an
// autoscaler; with the fourth all start, on one node.
func waitsForMembers(w *world) {
	for i := range 3 {
		w.create(pod(fmt.Sprintf("m-%d", i), 2, gangLabels("m", 4)))
	}
	w.event("Pod", "m-0", "waits for members: 3 of 4 exist")
	w.notShown("m-0")
	w.noneBound("m-", time.Second)
	w.create(pod("m-3", 2, gangLabels("m", 4)))
	if nodes := w.gangNodes("m-", 4, 10*time.Second); len(nodes) != 1 {
		w.t.Errorf("a gang of 8 GPUs is on %d nodes: %v", len(nodes), nodes)
	}
}

// waitsForQuota: what a queue may not use waits without being shown to an autoscaler,
// and starts when the queue has room.
func waitsForQuota(w *world) {
	w.queueOf("small", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	w.createGang("first", 2, 2, inQueue("small"))
	w.gangNodes("first-", 2, 10*time.Second)
	w.createGang("second", 2, 1, inQueue("small"))
	w.event("Pod", "second-0", "waits for quota: queue small may use 4 nvidia GPUs, 4 nvidia GPUs in use, needs 2")
	w.notShown("second-0")
	w.createGang("third", 3, 2, inQueue("small"))
	w.event("Pod", "third-0", "can never start: queue small may use 4 nvidia GPUs", "needs 6")
	w.notShown("third-0")
	w.gone("first-0")
	w.gone("first-1")
	w.gangNodes("second-", 2, 10*time.Second)
}

// waitsForCapacity: a gang that the cluster has no room for is shown as unschedulable,
// every member, with the reason; and starts when there is room.
func waitsForCapacity(w *world) {
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5, 10*time.Second)
	w.createGang("big", 2, 8)
	for _, name := range []string{"big-0", "big-1"} {
		w.waits(name, "False: ", "waits for capacity: needs 2 members, 1 can be placed")
	}
	p := w.get("big-0")
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Reason != v1.PodReasonUnschedulable {
			w.t.Errorf("the reason is %s", c.Reason)
		}
	}
	w.createGang("big2", 2, 8) // one like it is told as well
	w.waits("big2-0", "waits for capacity")
	w.create(pod("single", 8)) // and may not be kept from what is free
	w.bound("single")
	w.noneBound("big-", 500*time.Millisecond)
	w.gone("full-0")
	w.gone("single")
	w.gangNodes("big-", 2, 10*time.Second)
}

// neverFits: a gang larger than the cluster says so.
func neverFits(w *world) {
	w.createGang("huge", 7, 8)
	w.waits("huge-0", "can never fit on the nodes there are: needs 7 members, 6 can be placed")
	w.create(pod("small", 1))
	w.bound("small")
}

// noSuchQueue: a queue nobody made is named, and the pods start once it is made.
func noSuchQueue(w *world) {
	w.createGang("lost", 2, 1, inQueue("nowhere"))
	w.event("Pod", "lost-0", `there is no queue "nowhere"`)
	w.notShown("lost-1")
	w.queueOf("nowhere", "{weight: 1}")
	w.gangNodes("lost-", 2, 10*time.Second)
}

// badLabels: what makes no sense is refused by the field's name; an edit cures it.
func badLabels(w *world) {
	size := "metadata.labels[" + names.LabelGangSize + "]: "
	w.create(pod("zero", 1, gangLabels("zero", 0)))
	w.create(pod("text", 1, gangLabels("text", "four")))
	w.create(pod("missing", 1, labelled(names.LabelGang, "x")))
	w.create(pod("whose", 1, labelled(names.LabelGangSize, "3")))
	w.waits("zero", size, `"0" is not a number from 1 to`)
	w.waits("text", size, `"four" is not a number`)
	w.waits("missing", size, "missing")
	w.waits("whose", size, names.LabelGang)
	for _, name := range []string{"zero", "whose"} {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"1"}}}`, names.LabelGangSize)
		if _, err := w.client.CoreV1().Pods("default").Patch(context.Background(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.bound(name)
	}
}

// elastic: a PodGroup with a minimum of 2 of 4 starts with what there is room for, and
// grows.
func elastic(w *world) {
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5, 10*time.Second)
	w.create(pod("more", 4))
	w.bound("more")
	w.apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: elastic, namespace: default}, spec: {minMember: 2}}`)
	for i := range 4 {
		w.create(pod(fmt.Sprintf("e-%d", i), 2, annotated(names.AnnotationKubeGroup, "elastic")))
	}
	w.gangNodes("e-", 2, 10*time.Second)
	w.waits("e-3", "waits for capacity")
	w.gone("more")
	w.gangNodes("e-", 4, 10*time.Second)
}

// oneRack: a required level holds for all members together, and for those that come
// back.
func oneRack(w *world) {
	rack := annotated(names.AnnotationTopology, "required=rack")
	w.create(pod("in-b", 1, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "b-0"} }))
	w.bound("in-b")
	w.createGang("wide", 2, 8, rack) // rb has 15 left
	for node := range w.gangNodes("wide-", 2, 10*time.Second) {
		if !strings.HasPrefix(node, "a-") {
			w.t.Errorf("a member is on %s", node)
		}
	}
	w.createGang("wider", 3, 8, rack) // ra has two nodes left
	w.waits("wider-0", "needs 3 members in one rack")
	w.noneBound("wider-", time.Second)
	w.createGang("never", 5, 8, rack)
	w.waits("never-0", "can never fit on the nodes there are: needs 5 members in one rack")
	w.gone("wide-0")
	w.gangNodes("wider-", 3, 10*time.Second)
}

// repaired: a member that comes back goes where its gang is, before others.
func repaired(w *world) {
	rack := annotated(names.AnnotationTopology, "required=rack")
	w.createGang("r", 2, 8, rack)
	nodes := w.gangNodes("r-", 2, 10*time.Second)
	var racked string
	for node := range nodes {
		racked = node[:1]
	}
	w.gone("r-1")
	w.create(pod("r-1", 8, gangLabels("r", 2), rack))
	if node, _ := w.bound("r-1"); !strings.HasPrefix(node, racked) {
		w.t.Errorf("repaired on %s, the others are in rack r%s", node, racked)
	}
}

// memberGone: a gang that waits for room loses a member before it starts: nothing is
// held for it.
func memberGone(w *world) {
	w.createGang("x", 6, 8)
	w.gone("x-5")
	w.createGang("y", 6, 8)
	w.eventually("one of the gangs runs whole", 15*time.Second, func() (bool, string) {
		x, y := 0, 0
		for _, p := range w.pods() {
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
	w.gangNodes("f-", 3, 10*time.Second)
	for i := range 2 {
		if err := w.finish(w.get(fmt.Sprintf("f-%d", i))); err != nil {
			w.t.Fatal(err)
		}
	}
	w.gone("f-2")
	w.create(pod("f-2", 1, gangLabels("f", 3)))
	w.bound("f-2")
}

// learned: in a queue of shortest job first, what ran briefly before goes first.
func learned(w *world) {
	w.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: short, annotations: {tangram.dev/order: sjf}}, spec: {weight: 1, capability: {nvidia.com/gpu: 8}}}")
	of := func(image string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Image = image }
	}
	for i, image := range []string{"long", "brief"} { // one after the other, so that they are told apart
		name := fmt.Sprintf("ran-%d", i)
		w.create(pod(name, 8, inQueue("short"), of(image)))
		w.bound(name)
		w.boundBefore(name, map[string]time.Duration{"long": time.Hour, "brief": time.Minute}[image])
		if err := w.finish(w.get(name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.create(pod("blocks", 8, inQueue("short")))
	w.bound("blocks")
	w.create(pod("long", 8, inQueue("short"), of("long")))
	w.event("Pod", "long", "waits for quota")
	w.create(pod("brief", 8, inQueue("short"), of("brief")))
	w.event("Pod", "brief", "waits for quota")
	if err := w.finish(w.get("blocks")); err != nil {
		w.t.Fatal(err)
	}
	w.bound("brief")
	w.noneBound("long", time.Second)
}

// boundBefore makes the API tell that a pod was bound so much earlier.
func (w *world) boundBefore(name string, by time.Duration) {
	w.t.Helper()
	p := w.get(name)
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled {
			c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-by))
		}
	}
	if _, err := w.client.CoreV1().Pods("default").UpdateStatus(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// heldByGates: a member that is not ready to be scheduled does not exist yet.
func heldByGates(w *world) {
	w.create(pod("g-0", 8, gangLabels("g", 2)))
	w.create(pod("g-1", 8, gangLabels("g", 2), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/data"}} }))
	w.event("Pod", "g-0", "waits for members: 1 of 2 exist")
	w.createGang("all", 6, 8) // nothing is held meanwhile
	w.gangNodes("all-", 6, 10*time.Second)
	for i := range 2 {
		w.gone(fmt.Sprintf("all-%d", i))
	}
	if _, err := w.client.CoreV1().Pods("default").Patch(context.Background(), "g-1", "application/strategic-merge-patch+json", []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.gangNodes("g-", 2, 10*time.Second)
}

// ownRules: what only kube-scheduler's filters know is learned: members with rules of
// their own, a node they may not use.
func ownRules(w *world) {
	on := func(node string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node} }
	}
	w.create(pod("s-0", 1, gangLabels("s", 3), on("a-1")))
	w.create(pod("s-1", 1, gangLabels("s", 3), on("b-1")))
	w.create(pod("s-2", 1, gangLabels("s", 3)))
	w.gangNodes("s-", 3, 10*time.Second)
	if a, b := w.get("s-0").Spec.NodeName, w.get("s-1").Spec.NodeName; a != "a-1" || b != "b-1" {
		w.t.Errorf("s-0 is on %s, s-1 on %s", a, b)
	}
	w.createGang("v", 2, 1, func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "nobody"}}}}
	})
	w.waits("v-0", `persistentvolumeclaim "nobody" not found`)
}

// noExtraWrites: a member's way costs a create and a binding: no nomination is
// written for the moment it waits for the others.
func noExtraWrites(w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	updates := make(chan string, 1000)
	w.follow(ctx, func(before, after *v1.Pod) {
		if before != nil && after != nil && before.ResourceVersion != after.ResourceVersion {
			updates <- fmt.Sprintf("%s: node %q, nominated %q", after.Name, after.Spec.NodeName, after.Status.NominatedNodeName)
		}
	})
	w.createGang("n", 16, 1)
	w.gangNodes("n-", 16, 10*time.Second)
	time.Sleep(time.Second)
	if len(updates) != 16 {
		for range min(len(updates), 40) {
			w.t.Log(<-updates)
		}
		w.t.Errorf("%d updates of 16 pods", len(updates))
	}
}
