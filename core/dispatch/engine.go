package dispatch

import (
	"fmt"
	"slices"
	"time"

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
	// Reservations is how many gangs may hold nodes for their start at once. One is
	// enough against starvation; more promise more gangs a time, and make small ones
	// wait longer.
	Reservations int
	// Patience is how long a gang waits before nodes are kept free for it though
	// nobody knows when they will be.
	Patience time.Duration
	// Preempt lets gangs take the place of others.
	Preempt bool
	// Tries bounds how many gangs are tried in vain in one decision: how far behind
	// the first others are looked for that fit.
	Tries int
	// Evictable says whether a holder may be evicted for all that core does not know
	// (disruption budgets). nil: any may.
	Evictable func(model.HolderID) bool
	// Budgets are those that limit how many holders of a kind may be evicted together.
	// nil: none does.
	Budgets func(model.HolderID) []Budget
	// May says whether a node would take a request's pods for all that core does not
	// know. nil: any would. Call Changed when an answer changes from no to yes.
	May func(r *model.Request, node model.NodeID) bool
	// Ever is May without what passes by itself. nil: May.
	Ever func(r *model.Request, node model.NodeID) bool
}

// Budget is how many of the holders that share it may be evicted now.
type Budget struct {
	Name    string
	Allowed int
}

// DefaultOptions are the scheduler's.
func DefaultOptions() Options {
	return Options{
		Weights: score.DefaultWeights(), Backfill: true, Reservations: 1, Patience: arbiter.DefaultAging,
		Preempt: true, Tries: 256,
	}
}

// Engine knows all gangs, and decides. Not safe for concurrent use.
type Engine struct {
	ledger  *ledger.Ledger
	planner *planner.Planner
	tree    *arbiter.Tree
	options Options

	gangs map[ID]*known
	// running are those with a member placed, partial those of them that run with
	// fewer members than exist or than they need.
	running, partial map[ID]*known
	// ranks counts running gangs that may be evicted.
	ranks map[rank]int
	// of finds the gang of a holder.
	of       map[model.HolderID]ID
	reserved []*reservation
	// generation counts changes of reserved and of the fleet.
	generation, fleet uint64
	// claims is since when queues are short of gangs.
	claims map[claim]int64
	// leaving are members that are going away.
	leaving map[model.HolderID]departure

	// freed counts what may give somebody a place who had none; seen is the ledger's
	// version at the end of the last call, so that others' changes are noticed.
	freed, seen uint64
	// full are the shapes that have no place even where nothing is reserved, with the
	// value of freed at which that was found.
	full map[string]uint64
	// decided counts decisions, now is the time of the last.
	decided uint64
	now     int64

	empty      *gang.Empty
	nevers     map[string]*gang.Failure
	neverFleet uint64
}

// New returns an engine over a ledger, its planner and a tree of queues.
func New(l *ledger.Ledger, p *planner.Planner, t *arbiter.Tree, o Options) *Engine {
	return &Engine{
		ledger: l, planner: p, tree: t, options: o,
		gangs: map[ID]*known{}, running: map[ID]*known{}, partial: map[ID]*known{}, ranks: map[rank]int{},
		of: map[model.HolderID]ID{}, leaving: map[model.HolderID]departure{}, full: map[string]uint64{}, claims: map[claim]int64{},
		nevers: map[string]*gang.Failure{}, seen: l.Version(), fleet: l.FleetVersion(),
	}
}

// enter notices what others did to the ledger since the last call; what it returns
// ends the call.
func (e *Engine) enter() func() {
	if e.ledger.Version() != e.seen {
		e.freed++
	}
	if v := e.ledger.FleetVersion(); v != e.fleet {
		e.fleet = v
		e.generation++
		e.freed++
		// Where and when gangs can start is found anew; what is being freed stays.
		e.unreserve(func(r *reservation) bool { return r.until == 0 })
	}
	return func() { e.seen = e.ledger.Version() }
}

// Changed tells that nodes may take what they refused before, for reasons that core
// does not know.
func (e *Engine) Changed() {
	e.freed++
	clear(e.nevers)
}

// Tree is the tree of queues.
func (e *Engine) Tree() *arbiter.Tree { return e.tree }

// Submit adds a gang or tells what is new about it: members came or went, it
// changed. Members that are gone are let go, with what they hold. The engine keeps
// the gang's slices: the caller must not change them.
func (e *Engine) Submit(g Gang) error {
	defer e.enter()()
	if err := g.Validate(); err != nil {
		return fmt.Errorf("gang %q: %w", g.ID, err)
	}
	for i, r := range g.Roles {
		for j, h := range r.Members {
			if other, ok := e.of[h]; ok && other != g.ID {
				return fmt.Errorf("gang %q: roles[%d].members[%d]: %q is a member of gang %q", g.ID, i, j, h, other)
			}
		}
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
	shape := spellShape(&g)
	if shape != k.shape || g.Queue != k.Queue || g.Runtime != k.Runtime {
		e.unreserve(func(r *reservation) bool { return r.id == g.ID && r.until == 0 })
	}
	*k = known{Gang: g, placed: k.placed, have: make([]int, len(g.Roles)), started: k.started, shape: shape, rank: k.rank, vain: k.vain}
	for role, r := range g.Roles {
		k.exists += len(r.Members)
		for _, h := range r.Members {
			e.of[h] = g.ID
			if s, ok := k.placed[h]; ok {
				k.placed[h] = spot{role, s.node}
				k.have[role]++
			}
		}
	}
	for h := range k.placed { // each for itself
		if e.of[h] != g.ID {
			e.ledger.Drop(h)
			delete(k.placed, h)
			e.freed++
		}
	}
	e.recount(k)
	return nil
}

// Found tells of a member that runs already, as after a restart: the ledger has its
// claim.
func (e *Engine) Found(id ID, h model.HolderID, node model.NodeID, since int64) {
	k := e.gangs[id]
	if k == nil || e.of[h] != id {
		return
	}
	for role, r := range k.Roles {
		if slices.Contains(r.Members, h) {
			if len(k.placed) == 0 || since < k.started {
				k.started = since
			}
			e.put(k, h, spot{role, node})
		}
	}
	e.recount(k)
}

// Ended tells that a member has no place any more: it ended, was evicted, or its
// start failed. It waits again if it still exists (see Submit).
func (e *Engine) Ended(h model.HolderID) {
	defer e.enter()()
	e.ledger.Drop(h)
	e.freed++
	delete(e.leaving, h)
	if k := e.gangs[e.of[h]]; k != nil {
		e.remove(k, h)
		e.recount(k)
	}
}

// Undo takes back the start of members that could not be carried out: they wait
// again. Who is confirmed in the ledger by now runs, and stays. Whoever undoes one
// member of a start undoes all, or the gang stays below its minimum until it is
// repaired.
func (e *Engine) Undo(id ID, members []model.HolderID) {
	defer e.enter()()
	k := e.gangs[id]
	if k == nil {
		return
	}
	undone := false
	for _, h := range members {
		if _, c, held := e.ledger.Claim(h); held && !c.Assumed || e.of[h] != id {
			continue
		}
		e.ledger.Drop(h)
		e.remove(k, h)
		delete(e.leaving, h)
		undone = true
	}
	if undone {
		e.failed(k)
	}
	e.freed++
	e.recount(k)
}

// Withdraw takes a gang away with all it holds.
func (e *Engine) Withdraw(id ID) {
	defer e.enter()()
	k := e.gangs[id]
	if k == nil {
		return
	}
	for _, r := range k.Roles {
		for _, h := range r.Members {
			e.ledger.Drop(h)
			delete(e.of, h)
		}
	}
	e.freed++
	clear(k.placed)
	e.index(k)
	e.tree.Remove(arbiter.JobID(id))
	delete(e.gangs, id)
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

// Size returns how many gangs wait and run.
func (e *Engine) Size() (waiting, running int) {
	return len(e.gangs) - len(e.running), len(e.running)
}

// put and remove change who has a place; recount or index must follow.
func (e *Engine) put(k *known, h model.HolderID, s spot) {
	e.remove(k, h)
	k.placed[h] = s
	k.have[s.role]++
}

func (e *Engine) remove(k *known, h model.HolderID) {
	if s, ok := k.placed[h]; ok {
		k.have[s.role]--
		delete(k.placed, h)
	}
}

// take writes down a plan that was kept in the ledger.
func (e *Engine) take(k *known, plan *gang.Plan, now int64) {
	if len(k.placed) == 0 {
		k.started = now
	}
	for _, p := range plan.Placements {
		e.put(k, p.Holder, spot{p.Role, p.Node})
	}
	if k.missing() == 0 {
		if r := e.reservationOf(k.ID); r != nil && r.until > 0 {
			k.vain.kept = r.nodes
		}
		e.unreserve(func(r *reservation) bool { return r.id == k.ID })
	}
	e.index(k)
}
