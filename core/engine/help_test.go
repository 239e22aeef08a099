package engine_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

const second = int64(time.Second)

var gpu = cluster.GPU(model.NVIDIA)

// fataler is a test or a property.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is an engine with all around it, and a second, naive book of who is where.
type world struct {
	t      fataler
	l      *ledger.Ledger
	p      *planner.Planner
	tree   *arbiter.Tree
	e      *engine.Engine
	queues []arbiter.Queue
	o      engine.Options
	now    int64

	gangs  map[engine.ID]engine.Gang
	placed map[engine.ID]map[model.HolderID]model.NodeID
	begun  map[engine.ID]int64
	last   engine.Plan
	// leaving were told to go.
	leaving map[model.HolderID]bool
}

// facts are Kubernetes' rules as a test wants them: a node that may not take a shape is
// cordoned, a protected holder has a budget that allows nothing.
type facts struct {
	may       func(engine.Shape, model.NodeID) bool
	protected map[model.HolderID]bool
	budgets   func(model.HolderID) []engine.Budget
}

func (f facts) May(s engine.Shape, n model.NodeID) *explain.Refusal {
	if f.may == nil || f.may(s, n) {
		return nil
	}
	return &explain.Refusal{Code: explain.Cordoned}
}

func (f facts) Apart(engine.Shape, engine.Shape) string { return "" }

func (f facts) Budgets(h model.HolderID) []engine.Budget {
	switch {
	case f.protected[h]:
		return []engine.Budget{{Name: "none"}}
	case f.budgets != nil:
		return f.budgets(h)
	}
	return nil
}

func newWorld(t fataler, o engine.Options, queues []arbiter.Queue, nodes ...*model.Node) *world {
	t.Helper()
	w := &world{
		t: t, l: ledger.New(), queues: queues, o: o, gangs: map[engine.ID]engine.Gang{},
		placed: map[engine.ID]map[model.HolderID]model.NodeID{}, begun: map[engine.ID]int64{},
		leaving: map[model.HolderID]bool{},
	}
	for _, n := range nodes {
		if err := w.l.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	w.p = planner.New(w.l)
	w.tree = w.newTree()
	w.e = engine.New(w.l, w.p, w.tree, o)
	return w
}

func (w *world) newTree() *arbiter.Tree {
	tree, err := arbiter.NewTree(w.queues, w.total())
	if err != nil {
		w.t.Fatal(err)
	}
	return tree
}

// total is what the nodes have.
func (w *world) total() map[arbiter.Resource]int64 {
	sum := int64(0)
	for id := range w.l.Nodes() {
		v, _ := w.l.View(id)
		sum += int64(len(v.Node.Devices)) * 1000
	}
	return map[arbiter.Resource]int64{gpu: sum}
}

func nodes(count, gpus int) []*model.Node {
	var out []*model.Node
	for i := range count {
		out = append(out, coretest.Node(fmt.Sprintf("n%03d", i)).GPUs(gpus, "A100").Domains("z", fmt.Sprint("r", i/2)).Build())
	}
	return out
}

func holders(id engine.ID, from, to int) []model.HolderID {
	var out []model.HolderID
	for i := from; i < to; i++ {
		out = append(out, model.HolderID(fmt.Sprintf("%s/%03d", id, i)))
	}
	return out
}

// simple is a gang of members that ask for so many GPUs, all needed.
func simple(id string, members, gpus int) engine.Gang {
	return engine.Gang{
		ID: engine.ID(id), Min: members, Preemptible: true,
		Roles: []engine.Role{{Request: coretest.Request(gpus), Members: holders(engine.ID(id), 0, members)}},
	}
}

func (w *world) submit(gs ...engine.Gang) {
	w.t.Helper()
	for _, g := range gs {
		if err := w.e.Submit(g); err != nil {
			w.t.Fatal(err)
		}
		w.gangs[g.ID] = g
		if w.placed[g.ID] == nil {
			w.placed[g.ID] = map[model.HolderID]model.NodeID{}
		}
		maps.DeleteFunc(w.placed[g.ID], func(h model.HolderID, _ model.NodeID) bool {
			return !slices.ContainsFunc(g.Roles, func(r engine.Role) bool { return slices.Contains(r.Members, h) })
		})
	}
}

// singles submits gangs of one GPU to a queue.
func (w *world) singles(prefix, queue string, n int) {
	for i := range n {
		g := simple(fmt.Sprint(prefix, i), 1, 1)
		g.Queue = queue
		w.submit(g)
	}
}

func (w *world) withdraw(id engine.ID) {
	w.e.Withdraw(id)
	delete(w.gangs, id)
	delete(w.placed, id)
	delete(w.begun, id)
}

func (w *world) ended(h model.HolderID) {
	id, _ := w.e.Of(h)
	w.e.Ended(h)
	delete(w.placed[id], h)
	delete(w.leaving, h)
}

// count is how many of each role have a place.
func (w *world) count(id engine.ID) []int {
	g := w.gangs[id]
	out := make([]int, len(g.Roles))
	for i, r := range g.Roles {
		for _, h := range r.Members {
			if _, ok := w.placed[id][h]; ok {
				out[i]++
			}
		}
	}
	return out
}

// whole says whether a gang has its minimum.
func (w *world) whole(id engine.ID) bool {
	g := w.gangs[id]
	for i, n := range w.count(id) {
		if n < g.Roles[i].Min {
			return false
		}
	}
	return len(w.placed[id]) >= g.Min
}

// decide asks for a decision and checks all that must hold of any.
func (w *world) decide() engine.Plan {
	w.t.Helper()
	share := map[string]int64{} // of GPUs
	for _, a := range w.tree.Accounts() {
		share[a.Queue] = lines(w.tree, a.Queue)[gpu].Share
	}
	waiting := map[engine.ID]bool{}
	for id := range w.gangs {
		waiting[id] = len(w.placed[id]) == 0
	}
	d := w.e.Decide(w.now)
	w.last = d
	for _, s := range d.Starts {
		g := w.gangs[s.Gang]
		if s.Repair == (len(w.placed[s.Gang]) == 0) {
			w.t.Fatalf("%s: repair is %v with %d members placed", s.Gang, s.Repair, len(w.placed[s.Gang]))
		}
		if len(w.placed[s.Gang]) == 0 {
			w.begun[s.Gang] = w.now
		}
		for _, p := range s.Plan.Placements {
			if _, twice := w.placed[s.Gang][p.Holder]; twice || !slices.Contains(g.Roles[p.Role].Members, p.Holder) {
				w.t.Fatalf("%s: %s starts twice, or is no member", s.Gang, p.Holder)
			}
			w.placed[s.Gang][p.Holder] = p.Node
		}
		if len(g.Subgroups) > 0 {
			w.checkSubgroups(&s)
		} else if !w.whole(s.Gang) {
			w.t.Fatalf("%s starts with %v of %+v", s.Gang, w.count(s.Gang), g)
		}
	}
	w.checkState()
	for _, x := range d.Evicts {
		w.checkEvict(x, share)
		for _, h := range x.Members {
			w.leaving[h] = true
		}
	}
	return d
}

// checkState compares ledger and tree with the naive book.
func (w *world) checkState() {
	w.t.Helper()
	if err := w.l.Audit(); err != nil {
		w.t.Fatal(err)
	}
	want := map[string]int64{}
	all := 0
	for id, g := range w.gangs {
		if w.e.Placed(id) != len(w.placed[id]) {
			w.t.Fatalf("%s: %d placed, want %d", id, w.e.Placed(id), len(w.placed[id]))
		}
		for i, n := range w.count(id) {
			for q := cmp.Or(g.Queue, arbiter.Default); q != ""; q = w.parent(q) {
				want[q] += int64(n) * w.p.Demand(g.Roles[i].Request)
			}
		}
		for h, node := range w.placed[id] {
			all++
			at, set := w.l.Held(h)
			_, there := w.l.View(node)
			if at != node || there && set.Count() == 0 && w.l.Debt(node) == 0 {
				w.t.Fatalf("%s holds %b on %q, placed on %q", h, set, at, node)
			}
		}
	}
	if _, n := w.l.Size(); n != all {
		w.t.Fatalf("%d holders in the ledger, %d are placed", n, all)
	}
	for _, q := range append(w.queues, arbiter.Queue{Name: arbiter.Default}) {
		if got := lines(w.tree, q.Name)[gpu].Used; got != want[q.Name] {
			w.t.Fatalf("queue %s uses %d, members placed sum up to %d", q.Name, got, want[q.Name])
		}
	}
}

// parent is the queue above another; empty for the outermost.
func (w *world) parent(queue string) string {
	for _, q := range w.queues {
		if q.Name == queue {
			return q.Parent
		}
	}
	return ""
}

// checkEvict checks a victim: it is not of the same or higher priority in the same queue,
// not of a queue that is not above its share, and goes in whole bundles.
func (w *world) checkEvict(x engine.Evict, share map[string]int64) {
	w.t.Helper()
	by := w.gangs[x.For]
	left := map[engine.ID]int{}
	taken := map[string]int64{}
	for _, h := range x.Members {
		id, ok := w.e.Of(h)
		if _, placed := w.placed[id][h]; !ok || !placed {
			w.t.Fatalf("%s has no place to be evicted from", h)
		}
		if _, seen := left[id]; !seen {
			left[id] = len(w.placed[id])
		}
		left[id]--
		g := w.gangs[id]
		switch {
		case !g.Preemptible || id == x.For || w.now-w.begun[id] < int64(g.MinRuntime):
			w.t.Fatalf("%s may not be evicted", h)
		case g.Queue == by.Queue && g.Priority >= by.Priority:
			w.t.Fatalf("%s of priority %d for %s of %d", h, g.Priority, by.ID, by.Priority)
		case g.Queue != by.Queue:
			for _, r := range g.Roles {
				if slices.Contains(r.Members, h) {
					taken[cmp.Or(g.Queue, arbiter.Default)] += w.p.Demand(r.Request)
				}
			}
		}
	}
	for id, n := range left {
		if len(w.gangs[id].Subgroups) > 0 {
			w.checkEvictedSubgroups(id, x.Members)
		} else if n > 0 && n < w.gangs[id].Min {
			w.t.Fatalf("%s keeps %d of at least %d", id, n, w.gangs[id].Min)
		}
	}
	for h := range w.leaving { // what they have is given already
		if id, ok := w.e.Of(h); ok && w.placed[id][h] != "" && taken[cmp.Or(w.gangs[id].Queue, arbiter.Default)] > 0 {
			for _, r := range w.gangs[id].Roles {
				if slices.Contains(r.Members, h) {
					taken[cmp.Or(w.gangs[id].Queue, arbiter.Default)] += w.p.Demand(r.Request)
				}
			}
		}
	}
	for q, n := range taken {
		// Shares are those before the decision; starts may have changed use since.
		if u := lines(w.tree, q)[gpu].Used; u-n < share[q] && u-n < lines(w.tree, q)[gpu].Share {
			w.t.Fatalf("queue %s uses %d, its share is %d, and %d are taken", q, u, share[q], n)
		}
	}
}

// carryOut lets victims go; they wait again.
func (w *world) carryOut(d engine.Plan) int {
	n := 0
	for _, x := range d.Evicts {
		for _, h := range x.Members {
			w.ended(h)
			n++
		}
	}
	return n
}

func (w *world) runs(id string) bool { return len(w.placed[engine.ID(id)]) > 0 }

func options() engine.Options { return engine.DefaultOptions() }

func newTest(t *testing.T, count, gpus int, queues ...arbiter.Queue) *world {
	t.Helper()
	return newWorld(t, options(), queues, nodes(count, gpus)...)
}

func claim(h model.HolderID, n *model.Node, gpus int, free model.Mask) ledger.Claim {
	return coretest.WholeClaim(string(h), n, coretest.Request(gpus), free.Lowest(gpus))
}

// lines are the figures of a queue, by resource.
func lines(tree *arbiter.Tree, queue string) map[arbiter.Resource]arbiter.AccountLine {
	out := map[arbiter.Resource]arbiter.AccountLine{}
	for _, a := range tree.Accounts() {
		for _, l := range a.Lines {
			if a.Queue == queue {
				out[l.Resource] = l
			}
		}
	}
	return out
}
