package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestGangPreemptionKilled: the scheduler is killed in the middle of an eviction, and
// again. The next one does not know for which gang the victims go; but the gang gets what
// they leave, no other pod does, and no other pod is evicted. Meanwhile a second replica
// waits to take over.
func TestGangPreemptionKilled(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 3, gpu: {model: A100-80GB, count: 8}}
`)
	const lease = 6 * time.Second // longer than a busy machine takes to renew it
	lead := cluster.Elect(lease)
	schedulers := []*local.Serving{w.Scheduler(nil, lead...), w.Scheduler(nil, lead...)}
	kill := func() { // the leader; the other takes over
		t.Helper()
		w.Must(schedulers[0].Kill())
		schedulers = append(schedulers[1:], w.Scheduler(nil, lead...))
	}
	w.AddPriorityClass("low", 10)
	w.AddPriorityClass("high", 1000)
	low := 12
	for i := range low {
		w.Create(pod(fmt.Sprintf("low-%d", i), 2, cluster.Priority("low")))
	}
	w.gangNodes("low-", low)
	w.createGang("urgent", 2, 8, cluster.Priority("high"))
	going := func() (names []string) {
		for _, p := range w.AllPods() {
			if p.DeletionTimestamp != nil {
				names = append(names, p.Name)
			}
		}
		return names
	}
	w.Eventually("victims go", func() (bool, string) { return len(going()) == 8, fmt.Sprint(going()) })
	victims := going()
	for i := range 4 { // pods that could use what is freed
		w.Create(pod(fmt.Sprintf("small-%d", i), 2, cluster.Priority("low")))
	}
	w.createGang("pair", 2, 2, cluster.Priority("low"))
	left := func(n int) {
		t.Helper()
		for _, name := range victims[:n] {
			w.Delete(name)
		}
		victims = victims[n:]
	}
	left(2)
	kill()
	w.Waits("small-0", "waits for capacity")
	left(4)
	kill()
	w.noneBound("small-", lease+2*time.Second) // a lease and a decision
	w.noneBound("pair-", 0)
	left(2)
	if nodes := w.gangNodes("urgent-", 2); len(nodes) != 2 {
		t.Errorf("on %v", nodes)
	}
	if n := w.left("low-"); n != low-8 {
		t.Errorf("%d are left, 8 of %d had to go", n, low)
	}
	w.noneBound("small-", 0)
	w.CheckRecords()
	w.selfCheck(schedulers[0], 6)

	// What waits starts under the leader after that.
	kill()
	for _, p := range w.AllPods() {
		if p.Spec.NodeName != "" {
			w.Delete(p.Name)
		}
	}
	w.gangNodes("pair-", 2)
	w.gangNodes("small-", 4)
}
