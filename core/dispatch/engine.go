package dispatch

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// Options of an engine.
type Options struct {
	Weights score.Weights
	// Backfill lets gangs pass others that cannot start. Without it a queue's first
	// gang that cannot start closes the queue (strict fifo).
	Backfill bool
	// Reservations is how many gangs may hold nodes for their start at once. One keeps
	// large gangs from starving; each more lets some of them start sooner and has all
	// others wait longer (docs/benchmarks.md, Queues).
	Reservations int
	// Preempt lets gangs take the place of others.
	Preempt bool
	// Tries bounds how many gangs are tried in vain in one decision.
	Tries int
	// Evictable says whether a holder may be evicted for all that core does not know
	// (disruption budgets). nil: any may.
	Evictable func(model.HolderID) bool
	// May says whether a node would take a request's pods for all that core does not
	// know. nil: any would.
	May func(r *model.Request, node model.NodeID) bool
}

// DefaultOptions are the scheduler's.
func DefaultOptions() Options {
	return Options{Weights: score.DefaultWeights(), Backfill: true, Reservations: 1, Preempt: true, Tries: 256}
}

// Engine knows all gangs, and decides. Not safe for concurrent use.
type Engine struct {
	ledger  *ledger.Ledger
	planner *planner.Planner
	tree    *arbiter.Tree
	options Options

	gangs map[ID]*known
	// running are those of gangs that have a place.
	running map[ID]*known
	// briefs finds the shortest gang that waits, by shape; see shortest.
	briefs map[string]*briefs
	// of finds the gang of a holder.
	of       map[model.HolderID]ID
	reserved []*reservation
	// generation counts changes of reserved.
	generation uint64
	// leaving are members that were told to go, and for whom.
	leaving map[model.HolderID]ID
	// partial are gangs that run with fewer members than exist.
	partial map[ID]bool
}

// New returns an engine over a ledger, its planner and a tree of queues.
func New(l *ledger.Ledger, p *planner.Planner, t *arbiter.Tree, o Options) *Engine {
	return &Engine{ledger: l, planner: p, tree: t, options: o, gangs: map[ID]*known{}, running: map[ID]*known{}, briefs: map[string]*briefs{}, of: map[model.HolderID]ID{}, leaving: map[model.HolderID]ID{}, partial: map[ID]bool{}}
}

// Tree is the tree of queues.
func (e *Engine) Tree() *arbiter.Tree { return e.tree }

// Submit adds a gang or tells what is new about it: members came or went, it
// changed. Members that are gone are let go.
func (e *Engine) Submit(g Gang) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("gang %q: %w", g.ID, err)
	}
	k := e.gangs[g.ID]
	if k == nil {
		k = &known{placed: map[model.HolderID]spot{}}
		e.gangs[g.ID] = k
	}
	for _, r := range k.Roles {
		for _, h := range r.Members {
			delete(e.of, h)
		}
	}
	k.Gang, k.shape = g, spellShape(&g)
	for role, r := range g.Roles {
		for _, h := range r.Members {
			e.of[h] = g.ID
			if s, ok := k.placed[h]; ok {
				k.placed[h] = spot{role, s.node}
			}
		}
	}
	for h := range k.placed {
		if _, ok := e.of[h]; !ok {
			delete(k.placed, h)
		}
	}
	e.recount(k)
	return nil
}

// Found tells of a member that runs already, as after a restart.
func (e *Engine) Found(id ID, h model.HolderID, node model.NodeID, since int64) {
	k := e.gangs[id]
	if k == nil {
		return
	}
	for role, r := range k.Roles {
		if slices.Contains(r.Members, h) {
			if len(k.placed) == 0 || since < k.started {
				k.started = since
			}
			k.placed[h] = spot{role, node}
		}
	}
	e.recount(k)
}

// Ended tells that a member has no place any more: it ended, was evicted, or its
// start failed. It waits again if it still exists (see Submit).
func (e *Engine) Ended(h model.HolderID) {
	k := e.gangs[e.of[h]]
	e.ledger.Drop(h)
	if k == nil {
		return
	}
	delete(k.placed, h)
	delete(e.leaving, h)
	e.recount(k)
}

// Undo takes back the start of members that could not be carried out: they wait
// again, with the gang's other members whose start was not.
func (e *Engine) Undo(id ID, members []model.HolderID) {
	k := e.gangs[id]
	if k == nil {
		return
	}
	for _, h := range members {
		e.ledger.Forget(h)
		delete(k.placed, h)
	}
	e.recount(k)
}

// Withdraw takes a gang away with all it holds.
func (e *Engine) Withdraw(id ID) {
	k := e.gangs[id]
	if k == nil {
		return
	}
	for _, r := range k.Roles {
		for _, h := range r.Members {
			e.ledger.Drop(h)
			delete(e.of, h)
			delete(e.leaving, h)
		}
	}
	e.tree.Remove(arbiter.JobID(id))
	delete(e.gangs, id)
	delete(e.running, id)
	delete(e.partial, id)
	e.unreserve(func(r *reservation) bool { return r.id == id })
}

// Gang returns what is known of a gang.
func (e *Engine) Gang(id ID) (Gang, bool) {
	if k := e.gangs[id]; k != nil {
		return k.Gang, true
	}
	return Gang{}, false
}

// Of returns the gang of a holder.
func (e *Engine) Of(h model.HolderID) (ID, bool) {
	id, ok := e.of[h]
	return id, ok
}

// NodeOf is where a holder has its place; empty when it has none.
func (e *Engine) NodeOf(h model.HolderID) model.NodeID {
	if k := e.gangs[e.of[h]]; k != nil {
		return k.placed[h].node
	}
	return ""
}

// Placed is how many members of a gang have a place.
func (e *Engine) Placed(id ID) int {
	if k := e.gangs[id]; k != nil {
		return len(k.placed)
	}
	return 0
}

// Why says why a gang waits. Of one that runs the reason is that of its missing
// members, if any.
func (e *Engine) Why(id ID) Reason {
	k := e.gangs[id]
	if k == nil {
		return Reason{}
	}
	if len(k.placed) == 0 && k.complete() {
		if wait := e.tree.Why(arbiter.JobID(id)); wait.ForQuota() || wait.Code != 0 && k.reason.Failure == nil {
			return Reason{Quota: wait.ForQuota(), Text: spellWait(wait)}
		}
	}
	why := k.reason
	if why.Text == "" && why.Failure != nil {
		why.Text = why.Failure.String() // only now: few are ever asked for
	}
	return why
}

// Size returns how many gangs wait and run.
func (e *Engine) Size() (waiting, running int) {
	return len(e.gangs) - len(e.running), len(e.running)
}

// recount tells the tree what a gang uses and wants.
func (e *Engine) recount(k *known) {
	id := arbiter.JobID(k.ID)
	e.tree.Remove(id)
	delete(e.partial, k.ID)
	if len(k.placed) > 0 {
		e.running[k.ID] = k
	} else {
		delete(e.running, k.ID)
	}
	if len(k.placed) > 0 && len(k.placed) < k.exist() {
		e.partial[k.ID] = true
	}
	if len(k.placed) == 0 && !k.complete() {
		k.reason = Reason{Incomplete: true, Text: fmt.Sprintf("waits for members: %d of %d exist", k.exist(), k.Min)}
		return
	}
	job := arbiter.Job{
		ID: id, Queue: k.Queue, Namespace: k.Namespace, User: k.User, Priority: k.Priority, Submitted: k.Submitted,
		Class: k.shape, ExpectedRuntime: k.Runtime, Preemptible: k.Preemptible,
	}
	least, most := e.bounds(k)
	job.Demand, job.Extra = e.tree.Amounts(least), e.tree.Amounts(most)
	if len(k.placed) > 0 {
		_ = e.tree.Charge(job, e.tree.Amounts(e.used(k))) // amounts of what runs are never negative
		return
	}
	_ = e.tree.Submit(job)
	e.waits(k)
}

// bounds are the amounts of the minimum and of what could be used besides. Which
// members make up the minimum is open, so the cheapest order counts: that of roles.
func (e *Engine) bounds(k *known) (least, extra map[arbiter.Resource]int64) {
	least, extra = map[arbiter.Resource]int64{}, map[arbiter.Resource]int64{}
	need := k.Min
	for _, r := range k.Roles {
		need -= r.Min
	}
	for _, r := range k.Roles {
		n := r.Min
		more := min(need, len(r.Members)-r.Min)
		if more > 0 {
			n += more
			need -= more
		}
		e.add(least, r.Request, n)
		e.add(extra, r.Request, len(r.Members)-n)
	}
	return least, extra
}

func (e *Engine) add(to map[arbiter.Resource]int64, r *model.Request, count int) {
	if count <= 0 {
		return
	}
	n := int64(count)
	to[CPU] += n * r.Host.CPU
	to[Memory] += n * int64(r.Host.Memory)
	if r.Vendor != "" {
		to[GPU(r.Vendor)] += n * e.planner.Demand(r)
		if len(r.UseModels) == 1 {
			to[Model(r.UseModels[0].Name())] += n * e.planner.Demand(r)
		}
	}
}

// used is what a gang's placed members use.
func (e *Engine) used(k *known) map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	byRole := map[int]int{}
	for _, s := range k.placed {
		byRole[s.role]++
	}
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		e.add(out, k.Roles[role].Request, byRole[role])
	}
	return out
}

// take writes down a plan that was kept in the ledger.
func (e *Engine) take(k *known, plan *gang.Plan, now int64) {
	if len(k.placed) == 0 {
		k.started = now
	}
	for _, p := range plan.Placements {
		k.placed[p.Holder] = spot{p.Role, p.Node}
	}
	e.running[k.ID] = k
	if len(k.placed) < k.exist() {
		e.partial[k.ID] = true
	}
	k.reason = Reason{}
	e.unreserve(func(r *reservation) bool { return r.id == k.ID })
}
