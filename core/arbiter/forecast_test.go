package arbiter_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
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
			if err := future.Charge(arbiter.Job{ID: id}, arbiter.NewAmounts(m.jobs[id].Demand.Map())); err != nil {
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
			return w.Code == 0, w.Code != explain.QueueClosed && w.Code != explain.OverTotal
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

// TestForecastOutlivesNumbers: a forecast stays right when other resources get limits, or
// queues are described anew.
func TestForecastOutlivesNumbers(t *testing.T) {
	queue := arbiter.Queue{Name: "q", Capability: amounts{gpu: 4}}
	tree := newTree(t, amounts{gpu: 8}, queue)
	submit(t, tree, arbiter.Job{ID: "runs", Queue: "q", Namespace: "n"}, amounts{gpu: 3, "a": 3})
	placeAll(tree, 0)
	submit(t, tree, arbiter.Job{ID: "waits", Queue: "q", Namespace: "n"}, amounts{gpu: 2, "a": 2})
	now, then := tree.Forecast(nil, nil), tree.Forecast([]arbiter.JobID{"runs"}, nil)
	check := func(when string) {
		t.Helper()
		if now.Lets("waits") || !then.Lets("waits") {
			t.Errorf("%s: now %v, then %v", when, now.Lets("waits"), then.Lets("waits"))
		}
	}
	check("at first")
	for when, set := range map[string]func() error{
		"a total with a name before it":  func() error { return tree.SetTotal(amounts{"a": 9, gpu: 8}) },
		"a quota with a name before it":  func() error { return tree.SetQuotas([]arbiter.Quota{{Namespace: "n", Hard: amounts{"a": 4, "b": 1}}}) },
		"the same queues, and one more":  func() error { return tree.SetQueues([]arbiter.Queue{queue, {Name: "r", Guarantee: amounts{"c": 1}}}) },
		"a total without the name again": func() error { return tree.SetTotal(amounts{gpu: 8}) },
	} {
		if err := set(); err != nil {
			t.Fatal(err)
		}
		check(when)
	}
}
