package arbiter_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// TestForecast: a forecast says of a job what the tree says once it has come true; and
// one job crowds another if it is let start without it but not beside it.
func TestForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m.step(t)
		}
		var ended, started, waiting []arbiter.JobID
		m.tree = m.rebuilt(t)
		future := m.tree
		m.tree = m.rebuilt(t)
		charge := func(id arbiter.JobID) {
			if err := future.Charge(arbiter.Job{ID: id}, future.Amounts(m.tree.Map(m.jobs[id].Demand))); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
			_, runs := m.charged[id]
			switch changes := rapid.Bool().Draw(t, "changes"); {
			case runs && changes:
				ended = append(ended, id)
				future.Remove(id)
			case runs:
			case changes:
				started = append(started, id)
				charge(id)
			default:
				waiting = append(waiting, id)
			}
		}
		forecast := m.tree.Forecast(ended, started)
		lets := func(id arbiter.JobID) (yes, known bool) {
			w := future.Why(id)
			// Whether a queue is closed then, and whether there are as many in all, is not
			// forecast.
			return w.Code == 0, w.Code != arbiter.QueueClosed && w.Code != arbiter.OverTotal
		}
		for _, id := range waiting {
			if yes, known := lets(id); known && forecast.Lets(id) != yes {
				t.Fatalf("%s is let start: %v; when it came true: %v", id, forecast.Lets(id), future.Why(id))
			}
		}
		if len(waiting) < 2 {
			return
		}
		first, second := waiting[0], waiting[1]
		alone, _ := lets(first)
		charge(second)
		beside, known := lets(first)
		crowds := forecast.Crowds(first, second, m.jobs[second].Demand)
		if alone && known && crowds == beside {
			t.Fatalf("%s crowds %s: %v; when it came true: %v", second, first, crowds, future.Why(first))
		}
	})
}
