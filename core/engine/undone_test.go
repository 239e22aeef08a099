package engine_test

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// TestUndoneStartComesFirst: a gang's start is undone because kube-scheduler has not heard
// yet that pods on its nodes are gone. A gang that reserved these nodes meanwhile, for the time
// at which the gang would have ended, must not keep it off them.
func TestUndoneStartComesFirst(t *testing.T) {
	for _, freed := range []string{"holder", "rival"} {
		t.Run(freed, func(t *testing.T) {
			w := releasing(t, 4, 8)
			for i, name := range []string{"holder", "rival"} {
				g := simple(name, 2, 8)
				g.Runtime, g.Submitted, g.Namespace = time.Hour, int64(i), name
				w.submit(g)
			}
			w.step(0)
			running := []model.HolderID{"holder/000", "holder/001", "rival/000", "rival/001"}
			for _, h := range running {
				w.e.Reserved(h, w.release(h).Ticket)
			}
			for _, h := range running {
				w.bind(h)
			}
			w.now = second
			first, later := simple("first", 2, 8), simple("second", 3, 8)
			first.Runtime, first.Submitted, first.Namespace = time.Hour, w.now, "holder"
			later.Runtime, later.Submitted, later.Namespace = time.Hour, w.now+1, "rival"
			w.submit(first, later)
			w.step(second)
			if _, _, ok := w.e.Reservation("first"); !ok {
				t.Fatal("no nodes are kept for the first")
			}
			w.e.Ended(holders(engine.ID(freed), 0, 2)...)
			w.withdraw(engine.ID(freed))
			w.step(second)
			w.step(int64(time.Millisecond))
			if _, _, ok := w.e.Reservation("second"); !ok {
				t.Fatal("no nodes are kept for the second, which is what this test is about")
			}
			r := w.release("first/000")
			w.e.Refused(r.Holder, r.Node.ID, explain.Refusal{Code: explain.Filtered}, true)
			w.e.StartFailed(r.Holder, r.Ticket, true, "")
			for began := w.now; !w.released("first/000"); {
				if w.step(int64(5 * time.Millisecond)); w.now > began+5*second {
					at, nodes, ok := w.e.Reservation("second")
					t.Fatalf("not started again: %v; the second has %v %v from %s on", w.e.Why("first"), ok, nodes, time.Duration(at))
				}
			}
			if w.e.Placed("second") > 0 {
				t.Error("the second started")
			}
		})
	}
}
