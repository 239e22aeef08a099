package engine_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/planner"
)

// size is a gang's members and the GPUs of each.
type size struct{ members, gpus int }

// Mixes of gangs, drawn from evenly.
var (
	singles = []size{{1, 1}}
	small   = []size{{1, 1}, {1, 1}, {2, 1}, {1, 2}, {2, 2}}
	mixed   = []size{{1, 1}, {1, 2}, {2, 2}, {1, 4}, {2, 4}, {1, 8}, {4, 1}, {8, 1}}
	large   = []size{{1, 8}, {2, 4}} // more than the share of some queues
)

// load keeps queues with weights 1:2:3:4 on 64 GPUs saturated with gangs that run for
// 5 to 55 seconds, and measures what each uses.
type load struct {
	t       *testing.T
	engine  *engine.Engine
	tree    *arbiter.Tree
	mixes   [4][]size
	known   bool // runtimes are declared
	random  *rand.Rand
	now     int64
	created int
	idle    [4]bool
	jobs    map[engine.ID]*job
	waiting [4]int
	running [4]int     // GPUs
	used    [4]float64 // GPU-seconds
	lost    float64    // GPU-seconds of work that was evicted
}

type job struct {
	queue, gpus int
	runs        time.Duration
	end         int64 // 0: it waits
}

func queueName(i int) string { return fmt.Sprint("q", i) }

func newLoad(t *testing.T, seed uint64, known bool, o engine.Options, mixes [4][]size) *load {
	t.Helper()
	l := ledger.New()
	for _, n := range nodes(8, 8) {
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	var queues []arbiter.Queue
	for i := range mixes {
		queues = append(queues, arbiter.Queue{Name: queueName(i), Weight: int64(i + 1), Reclaimable: true})
	}
	tree, err := arbiter.NewTree(queues, map[arbiter.Resource]int64{gpu: 64000})
	if err != nil {
		t.Fatal(err)
	}
	return &load{
		t: t, engine: engine.New(l, planner.New(l), tree, o), tree: tree, mixes: mixes, known: known,
		random: rand.New(rand.NewPCG(seed, 2)), jobs: map[engine.ID]*job{},
	}
}

// fill keeps 20 gangs waiting in every queue that is not idle.
func (w *load) fill() {
	for q, mix := range w.mixes {
		for !w.idle[q] && w.waiting[q] < 20 {
			s := mix[w.random.IntN(len(mix))]
			g := simple(fmt.Sprintf("g%06d", w.created), s.members, s.gpus)
			runs := 5*time.Second + time.Duration(w.random.Int64N(int64(50*time.Second)))
			g.Queue, g.Submitted = queueName(q), w.now
			if w.known {
				g.Runtime = runs
			}
			if err := w.engine.Submit(g); err != nil {
				w.t.Fatal(err)
			}
			w.jobs[g.ID] = &job{queue: q, gpus: s.members * s.gpus, runs: runs}
			w.created++
			w.waiting[q]++
		}
	}
}

// decide carries out decisions until no gang is evicted; victims begin anew.
func (w *load) decide() {
	for {
		d := w.engine.Step(w.now)
		for _, s := range d.Starts {
			j := w.jobs[s.Gang]
			j.end = w.now + int64(j.runs)
			w.waiting[j.queue]--
			w.running[j.queue] += j.gpus
		}
		if len(d.Evicts) == 0 {
			return
		}
		for _, x := range d.Evicts {
			for _, h := range x.Members {
				id, _ := w.engine.Of(h)
				w.engine.Ended(h)
				if j := w.jobs[id]; j.end > 0 {
					w.lost += float64(j.gpus) * (float64(j.runs) - float64(j.end-w.now)) / 1e9
					j.end = 0
					w.waiting[j.queue]++
					w.running[j.queue] -= j.gpus
				}
			}
		}
	}
}

// run lets gangs come and end until a time.
func (w *load) run(to int64) {
	for {
		w.fill()
		w.decide()
		next := to
		for _, j := range w.jobs {
			if j.end > 0 {
				next = min(next, j.end)
			}
		}
		for q, n := range w.running {
			w.used[q] += float64(n) * float64(next-w.now) / 1e9
		}
		w.now = next
		var ended []engine.ID
		for id, j := range w.jobs {
			if j.end > 0 && j.end <= w.now {
				ended = append(ended, id)
			}
		}
		slices.Sort(ended)
		for _, id := range ended {
			w.end(id)
		}
		if next == to {
			return
		}
	}
}

func (w *load) end(id engine.ID) {
	j := w.jobs[id]
	if j.end > 0 {
		w.running[j.queue] -= j.gpus
	} else {
		w.waiting[j.queue]--
	}
	delete(w.jobs, id)
	w.engine.Withdraw(id)
}

// measure returns what each queue uses of what is used in a while.
func (w *load) measure(during time.Duration) [4]float64 {
	w.used = [4]float64{}
	w.run(w.now + int64(during))
	sum := 0.0
	for _, u := range w.used {
		sum += u
	}
	if use := sum / 64 / during.Seconds(); use < 0.95 {
		w.t.Errorf("%.3f of the cluster is in use", use)
	}
	for q := range w.used {
		w.used[q] /= sum
	}
	return w.used
}

// TestShares: queues with weights 1:2:3:4 that always have work get GPU time by their
// weights, to 2 % of each, whatever the sizes of their gangs, larger than a queue's
// share included, and of its rivals' gangs.
//
// Where runtimes are not declared, nodes are kept only for gangs whose queue is owed
// as much as they use in a thirty-second part of their patience, here 2 minutes. The long run
// is the same, but begins later.
func TestShares(t *testing.T) {
	mixes := map[string][4][]size{
		"singles": {singles, singles, singles, singles},
		"small":   {small, small, small, small},
		"mixed":   {mixed, mixed, mixed, mixed},
		"large":   {large, large, large, large},
		// The harder cases: large ones need a whole node, and single ones take every gap.
		"large in the first":  {large, singles, singles, singles},
		"large in the second": {singles, large, singles, singles},
		"large in the last":   {singles, singles, singles, large},
	}
	for name, mix := range mixes {
		for seed := range uint64(3) {
			known, preempt := seed < 2, seed != 1
			t.Run(fmt.Sprintf("%s, declared %v, evicting %v", name, known, preempt), func(t *testing.T) {
				t.Parallel()
				o := options()
				o.Preempt, o.Patience = preempt, time.Hour
				w := newLoad(t, seed, known, o, mix)
				w.run(int64(20 * time.Minute))
				for q, u := range w.measure(90 * time.Minute) {
					if want := float64(q+1) / 10; math.Abs(u-want) > 0.02*want {
						t.Errorf("queue %d has %.4f of what is in use, its weight is %.2f", q, u, want)
					}
				}
				if lost := w.lost / 64 / (110 * time.Minute).Seconds(); lost > 0.02 {
					t.Errorf("%.4f of the cluster's time was lost to evictions", lost)
				}
			})
		}
	}
}

// TestSharesInATree: what a queue has its children divide by their weights, to 2 %.
func TestSharesInATree(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("declared %v", known), func(t *testing.T) {
			t.Parallel()
			w := newLoad(t, 1, known, options(), [4][]size{small, small, small, small})
			if err := w.tree.SetQueues([]arbiter.Queue{
				{Name: "north", Weight: 1, Reclaimable: true}, {Name: "south", Weight: 2, Reclaimable: true},
				{Name: "q0", Parent: "north", Weight: 1, Reclaimable: true}, {Name: "q1", Parent: "north", Weight: 2, Reclaimable: true},
				{Name: "q2", Parent: "south", Weight: 1, Reclaimable: true}, {Name: "q3", Parent: "south", Weight: 3, Reclaimable: true},
			}); err != nil {
				t.Fatal(err)
			}
			w.run(int64(20 * time.Minute))
			want := [4]float64{1. / 9, 2. / 9, 1. / 6, 1. / 2}
			for q, u := range w.measure(time.Hour) {
				if math.Abs(u-want[q]) > 0.02*want[q] {
					t.Errorf("queue %d has %.4f of what is in use, its part is %.4f", q, u, want[q])
				}
			}
		})
	}
}

// TestRegain: what a queue leaves idle the others use; when it returns it is at its
// share within a minute, to one gang, and keeps it over time.
func TestRegain(t *testing.T) {
	for name, mix := range map[string][]size{"singles": singles, "small": small, "mixed": mixed, "large": large} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, declared %v", name, known), func(t *testing.T) {
				t.Parallel()
				largest := 0
				for _, s := range mix {
					largest = max(largest, s.members*s.gpus)
				}
				w := newLoad(t, 7, known, options(), [4][]size{mix, mix, mix, mix})
				w.run(int64(10 * time.Minute))
				for q := range 4 {
					w.idle[q] = true
					for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
						if w.jobs[id].queue == q {
							w.end(id)
						}
					}
					w.measure(2 * time.Minute) // which checks that nothing is idle
					w.idle[q] = false
					share, back := 6.4*float64(q+1), w.now+int64(time.Minute)
					for w.run(w.now + second); float64(w.running[q]+largest) <= share; w.run(w.now + second) {
						if w.now >= back {
							t.Fatalf("queue %d uses %d after a minute, its share is %.1f", q, w.running[q], share)
						}
					}
					if got, want := w.measure(10 * time.Minute)[q], float64(q+1)/10; math.Abs(got-want) > 0.02 {
						t.Errorf("after its return queue %d has %.3f, its weight is %.3f", q, got, want)
					}
				}
			})
		}
	}
}
