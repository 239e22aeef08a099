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
	"github.com/tangram-dev/tangram/core/state"
)

// fairRun is two queues of equal weight on 64 GPUs. For the first twenty minutes jobs of a
// hold all of them while b waits; then both have jobs of 8 GPUs that
// run for a minute or so. b is owed ten GPU hours, and gets them back a job at a time.
type fairRun struct {
	t      *testing.T
	e      *engine.Engine
	l      *ledger.Ledger
	random *rand.Rand
	now    int64
	jobs   map[engine.ID]*job
	gangs  map[engine.ID]engine.Gang
	used   [2]float64 // GPU-seconds
	made   int
}

const fairMinute = int64(time.Minute)

func newFairRun(t *testing.T) *fairRun {
	f := &fairRun{t: t, random: rand.New(rand.NewPCG(3, 4)), jobs: map[engine.ID]*job{}, gangs: map[engine.ID]engine.Gang{}}
	f.start(nil)
	return f
}

// start makes an engine as a process that starts does: from nodes, claims and gangs.
func (f *fairRun) start(learned *engine.Learned) {
	f.t.Helper()
	l := ledger.New()
	for _, n := range nodes(8, 8) {
		if err := l.SetNode(n); err != nil {
			f.t.Fatal(err)
		}
		if f.l != nil {
			for _, c := range f.l.Claims(n.ID) {
				c.Assumed, c.Since = false, f.now/second
				l.Put(n.ID, c)
			}
		}
	}
	tree, err := arbiter.NewTree([]arbiter.Queue{{Name: queueName(0), Weight: 1, Reclaimable: true}, {Name: queueName(1), Weight: 1, Reclaimable: true}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	o := options()
	o.Preempt = false
	f.l, f.e = l, engine.New(l, planner.New(l), tree, o)
	f.e.Tick(f.now)
	for _, id := range slices.Sorted(maps.Keys(f.gangs)) {
		if err := f.e.Submit(f.gangs[id]); err != nil {
			f.t.Fatal(err)
		}
	}
	f.e.CountFleet()
	if learned != nil {
		f.e.Restore(*learned, f.now)
	}
}

func (f *fairRun) submit(queue int, runs time.Duration, preemptible bool) {
	g := simple(fmt.Sprintf("g%06d", f.made), 1, 8)
	g.Queue, g.Submitted, g.Preemptible = queueName(queue), f.now, preemptible
	f.made++
	f.gangs[g.ID], f.jobs[g.ID] = g, &job{queue: queue, gpus: 8, runs: runs}
	if err := f.e.Submit(g); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fairRun) decide() {
	for _, s := range f.e.Decide(f.now).Starts {
		f.jobs[s.Gang].end = f.now + int64(f.jobs[s.Gang].runs)
	}
}

// run goes on to a time, a second at a time. down: no process decides.
func (f *fairRun) run(to int64, down bool) {
	for ; f.now < to; f.now += second {
		waiting := [2]int{}
		for id, j := range f.jobs {
			switch {
			case j.end > 0 && j.end <= f.now:
				f.e.Ended(f.gangs[id].Roles[0].Members...)
				f.e.Withdraw(id)
				delete(f.jobs, id)
				delete(f.gangs, id)
			case j.end == 0:
				waiting[j.queue]++
			}
		}
		for q, n := range waiting {
			for ; n < 10; n++ {
				f.submit(q, time.Duration(30+f.random.IntN(60))*time.Second, true)
			}
		}
		if !down {
			f.decide()
		}
		for _, j := range f.jobs {
			if j.end > 0 {
				f.used[j.queue] += float64(j.gpus)
			}
		}
	}
}

// TestRestartKeepsShares: a scheduler is killed in the middle of a run, with what it saved
// a minute before, and started anew half a minute later. Over the whole run both queues get
// their half within 2 %, as they do without the restart. Without the state they do not.
func TestRestartKeepsShares(t *testing.T) {
	run := func(t *testing.T, restart func(*fairRun)) float64 {
		f := newFairRun(t)
		for range 8 {
			f.submit(0, 20*time.Minute, false)
		}
		f.decide()
		f.run(40*fairMinute, false)
		if restart != nil {
			restart(f)
		}
		f.run(180*fairMinute, false)
		b := f.used[1] / (f.used[0] + f.used[1])
		t.Logf("queue b has %.4f of %.0f GPU hours", b, (f.used[0]+f.used[1])/3600)
		return b
	}
	// killed saves, goes on for a minute, and starts anew from what was saved.
	killed := func(keep bool) func(*fairRun) {
		return func(f *fairRun) {
			saved := state.State{At: f.now, Learned: f.e.Save()}
			text, left, err := saved.Encode()
			if err != nil || left != (state.Left{}) {
				f.t.Fatal(left, err)
			}
			f.run(f.now+fairMinute, false)
			f.run(f.now+fairMinute/2, true)
			read, err := state.Decode(text)
			if err != nil {
				f.t.Fatal(err)
			}
			if keep {
				f.start(&read.Learned)
			} else {
				f.start(nil)
			}
		}
	}
	within := func(b float64) bool { return math.Abs(b-0.5) <= 0.02*0.5 }
	t.Run("without a restart", func(t *testing.T) {
		if b := run(t, nil); !within(b) {
			t.Errorf("%.4f is not within 2 %% of 0.5", b)
		}
	})
	t.Run("with a restart", func(t *testing.T) {
		if b := run(t, killed(true)); !within(b) {
			t.Errorf("%.4f is not within 2 %% of 0.5", b)
		}
	})
	t.Run("with a restart that forgets", func(t *testing.T) {
		if b := run(t, killed(false)); within(b) {
			t.Errorf("%.4f is within 2 %% of 0.5: this test shows nothing", b)
		}
	})
}
