package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/local"
)

// TestGangPreemptionKilled: the scheduler is killed in the middle of an eviction, and
// again. The next one does not know for whom the victims go; but the gang gets what they
// leave, nobody else does, and nobody else is evicted. Meanwhile a second replica waits
// to take over. It runs alone: its leases are so short that a busy machine ends them.
func TestGangPreemptionKilled(t *testing.T) {
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 3, gpu: {model: A100-80GB, count: 8}}
`)
	lead := []string{"--leader-elect=true", "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=250ms"}
	schedulers := []*local.Process{w.scheduler(nil, lead...), w.scheduler(nil, lead...)}
	kill := func() { // whoever leads: the other takes over
		t.Helper()
		if err := schedulers[0].Kill(); err != nil {
			t.Fatal(err)
		}
		schedulers = append(schedulers[1:], w.scheduler(nil, lead...))
	}
	w.priorityClass("low", 10, "")
	w.priorityClass("high", 1000, "")
	low := 12
	for i := range low {
		w.create(pod(fmt.Sprintf("low-%d", i), 2, ofPriority("low")))
	}
	w.gangNodes("low-", low, 20*time.Second)
	w.createGang("urgent", 2, 8, ofPriority("high"))
	going := func() (names []string) {
		for _, p := range w.pods() {
			if p.DeletionTimestamp != nil {
				names = append(names, p.Name)
			}
		}
		return names
	}
	w.eventually("victims go", 20*time.Second, func() (bool, string) { return len(going()) == 8, fmt.Sprint(going()) })
	victims := going()
	for i := range 4 { // whoever can use what is freed
		w.create(pod(fmt.Sprintf("small-%d", i), 2, ofPriority("low")))
	}
	w.createGang("pair", 2, 2, ofPriority("low"))
	left := func(n int) {
		t.Helper()
		for _, name := range victims[:n] {
			w.gone(name)
		}
		victims = victims[n:]
	}
	left(2)
	kill()
	w.waits("small-0", "waits for capacity")
	left(4)
	kill()
	w.noneBound("small-", 4*time.Second) // a lease and a decision
	w.noneBound("pair-", 0)
	left(2)
	if nodes := w.gangNodes("urgent-", 2, 20*time.Second); len(nodes) != 2 {
		t.Errorf("on %v", nodes)
	}
	if n := w.left("low-"); n != low-8 {
		t.Errorf("%d are left, 8 of %d had to go", n, low)
	}
	w.noneBound("small-", 0)
	w.checkRecords()
	w.selfCheck(schedulers[0], 6)

	// What waits starts under whoever leads then.
	kill()
	for _, p := range w.pods() {
		if p.Spec.NodeName != "" {
			w.gone(p.Name)
		}
	}
	w.gangNodes("pair-", 2, 20*time.Second)
	w.gangNodes("small-", 4, 20*time.Second)
}
