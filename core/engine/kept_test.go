package engine_test

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
)

// TestWhyQuotaKept: a gang that would take the quota of one with a reservation is told so,
// and starts once it is known to end before.
func TestWhyQuotaKept(t *testing.T) {
	o := options()
	o.Patience = 0
	limit := map[arbiter.Resource]int64{gpu: 12_000}
	w := newWorld(t, o, []arbiter.Queue{{Name: "q", Capability: limit}, {Name: "z"}}, nodes(4, 4)...)
	holder, other, more := simple("holder", 1, 4), simple("other", 1, 4), simple("more", 1, 4)
	holder.Queue, other.Queue, more.Queue = "q", "z", "z"
	other.Runtime, more.Runtime = time.Hour, time.Hour
	w.submit(holder, other, more)
	w.decide()
	big := simple("big", 2, 4)
	big.Queue, big.Submitted, big.Namespace = "q", 1, "a"
	w.submit(big)
	w.decide()
	if _, _, ok := w.e.Reservation("big"); !ok {
		t.Fatal("no nodes are kept")
	}
	waits := simple("waits", 1, 1)
	waits.Queue, waits.Submitted, waits.Namespace = "q", 2, "a"
	w.submit(waits)
	w.decide()
	r := w.e.Why("waits")
	if w.runs("waits") || r.Code != explain.QuotaKept {
		t.Fatalf("it waits for %s: %s", r.Code, r.String())
	}
	waits.Runtime = time.Minute
	w.submit(waits)
	if w.decide(); !w.runs("waits") {
		r := w.e.Why("waits")
		t.Errorf("it ends before, and waits for %s", r.String())
	}
}
