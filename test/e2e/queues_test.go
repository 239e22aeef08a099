package e2e

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestQueuesChange: queues are limited, put into a circle, removed and moved while
// their pods run. What runs goes on, what waits says why, and others are not affected.
func TestQueuesChange(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	w.AddQueue("a", "{parent: team, capability: {nvidia.com/gpu: 4}}") // before the one above it
	w.AddQueue("b", "{parent: team}")
	w.AddQueue("team", "{capability: {nvidia.com/gpu: 6}}")
	w.Scheduler(nil)
	submit := func(queue string, from, to int) {
		for i := from; i < to; i++ {
			w.Create(pod(fmt.Sprintf("%s-%d", queue, i), 1, cluster.Queue(queue)))
		}
	}
	bound := func(what, queue string, n int) {
		t.Helper()
		w.Eventually(what, func() (bool, string) {
			got := 0
			for _, p := range w.AllPods() {
				if p.Spec.NodeName != "" && p.Labels[names.LabelQueue] == queue {
					got++
				}
			}
			return got == n, fmt.Sprintf("%d of %d bound in %s", got, n, queue)
		})
	}
	submit("a", 0, 6)
	bound("a is at its capability", "a", 4)
	submit("b", 0, 3)
	bound("team is at its capability", "b", 2)
	w.Event("Pod", "b-2", "queue team may use 6 nvidia GPUs, 6 nvidia GPUs in use, needs 1")

	w.AddQueue("a", "{parent: team, capability: {nvidia.com/gpu: 2}}")
	submit("a", 6, 7)
	w.Event("Pod", "a-6", "queue a may use 2 nvidia GPUs, 4 nvidia GPUs in use, needs 1")
	for _, p := range w.AllPods() {
		if p.Spec.NodeName != "" && p.Labels[names.LabelQueue] == "a" {
			w.Delete(p.Name)
			break
		}
	}
	bound("what a gives up goes to its sister", "b", 3)
	bound("nothing is evicted for a limit, nothing started above it", "a", 3)

	w.AddQueue("team", "{parent: b, capability: {nvidia.com/gpu: 6}}")
	w.Event("Queue", "team", "spec.parent: the parents form a circle: team -> b -> team")
	submit("b", 3, 4)
	w.Event("Pod", "b-3", `there is no queue "b"`)
	w.Create(pod("other", 1))
	w.Placed("other")
	bound("what runs in a circle goes on", "b", 3)

	w.AddQueue("team", "{capability: {nvidia.com/gpu: 8}}")
	bound("the circle is open", "b", 4)
	w.AddQueue("b", "{capability: {nvidia.com/gpu: 9}}") // now beside its team
	submit("b", 4, 9)
	bound("b is limited by itself alone", "b", 9)
	w.AddQueue("a", "{parent: b}") // which takes jobs no more
	submit("b", 9, 10)
	w.Event("Pod", "b-9", `queue "b" takes no jobs, only the queues below it do`)
	bound("what runs above goes on", "b", 9)
}
