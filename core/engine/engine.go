package engine

import (
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// Options of an engine.
type Options struct {
	// Weights decide between nodes for gangs that bring none of their own.
	Weights score.Weights
	// Backfill lets gangs pass others that cannot start. Without it a queue's first
	// gang that cannot start closes the queue (strict fifo).
	Backfill bool
	// Reservations is how many gangs may hold nodes for their start at once. One is
	// enough against starvation; more promise more gangs a time, and make small ones
	// wait longer.
	Reservations int
	// Patience is how long a gang waits before nodes are kept free for it though
	// it is not known when they will be.
	Patience time.Duration
	// Preempt lets gangs take the place of others.
	Preempt bool
	// Effort bounds what one step may cost, in units of about ten microseconds (see
	// effort). A step that reaches the bound is continued by the next one (Plan.More).
	Effort int
	// Ground is on how many nodes at least victims and earliest starts are looked for
	// at once.
	Ground int
	// BatchTimeout is how long members that start together may take until the last of
	// them is reserved; then all are taken back. 0: starts are carried out at once, and
	// no releases are kept.
	BatchTimeout time.Duration
	// Timing is how long the engine waits otherwise; the zero value is DefaultTiming.
	Timing Timing
	// Facts answers what core cannot know. nil: NoFacts.
	Facts Facts
}

// DefaultOptions are the scheduler's.
func DefaultOptions() Options {
	return Options{
		Weights: score.DefaultWeights(), Backfill: true, Reservations: 1, Patience: arbiter.DefaultAging,
		Preempt: true, Effort: 2000, Ground: 64, Timing: DefaultTiming(), Facts: NoFacts{},
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
	// of finds the gang and the role of a holder.
	of       map[model.HolderID]seat
	reserved []*reservation
	// generation counts changes of reserved and of the fleet.
	generation uint64
	// claims is since when queues are short of gangs.
	claims map[claim]int64
	// leaving are members that are going away, spared those that could not be evicted,
	// until when they are left alone.
	leaving map[model.HolderID]departure
	spared  map[model.HolderID]int64

	releases map[model.HolderID]*release
	batches  map[uint64]*batch
	batchIDs uint64
	tickets  Ticket
	effects  Effects
	// watchAt is when releases are to be looked at; 0: there are none to watch.
	watchAt    int64
	suspension suspension
	vetoes     vetoes
	timers     timers
	// counted is the excess as of the last CountFleet; nil before.
	counted *ledger.Excess
	// apart counts roles that keep others off their nodes, affine those with rules about
	// other holders.
	apart, affine int

	// freed counts what may give a place to a gang that had none.
	freed uint64
	// full are the gang shapes that have no place even where nothing is reserved.
	full map[gangShape]verdict
	// round numbers the passes over all waiting gangs; unfinished: the last step ended
	// before its pass did.
	round      uint64
	unfinished bool
	// steps counts steps, now is the time of the last.
	steps uint64
	now   int64

	empty      *gang.Empty
	nevers     map[gangShape]*explain.Reason
	neverFleet uint64
}

// verdict is that a gang shape has no place: as of a value of Engine.freed, found in a
// round.
type verdict struct{ freed, round uint64 }

// New returns an engine over a ledger, its planner and a tree of queues. From now on
// the engine is the only one that changes them.
func New(l *ledger.Ledger, p *planner.Planner, t *arbiter.Tree, o Options) *Engine {
	if o.Facts == nil {
		o.Facts = NoFacts{}
	}
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	e := &Engine{
		ledger: l, planner: p, tree: t, options: o,
		gangs: map[ID]*known{}, running: map[ID]*known{}, partial: map[ID]*known{}, ranks: map[rank]int{},
		of: map[model.HolderID]seat{}, leaving: map[model.HolderID]departure{}, spared: map[model.HolderID]int64{},
		releases: map[model.HolderID]*release{}, batches: map[uint64]*batch{}, vetoes: newVetoes(),
		full: map[gangShape]verdict{}, claims: map[claim]int64{}, nevers: map[gangShape]*explain.Reason{},
	}
	e.vetoes.timing = &e.options.Timing
	return e
}

// Configure changes the options from the next step on.
func (e *Engine) Configure(change func(*Options)) { change(&e.options) }

// Options returns the options as they are.
func (e *Engine) Options() Options { return e.options }

// Changed tells that nodes may take what they refused before, for reasons that core
// does not know.
func (e *Engine) Changed() {
	e.freed++
	clear(e.nevers)
}

// Tree is the tree of queues.
func (e *Engine) Tree() *arbiter.Tree { return e.tree }

// Submit adds a gang or tells what is new about it: members came or went, it
// changed. What was promised to members that are gone is taken back. The engine keeps
// the gang's slices: the caller must not change them.
func (e *Engine) Submit(g Gang) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("gang %q: %w", g.ID, err)
	}
	for i, r := range g.Roles {
		for j, h := range r.Members {
			if other, ok := e.of[h]; ok && other.id != g.ID {
				return fmt.Errorf("gang %q: roles[%d].members[%d]: %q is a member of gang %q", g.ID, i, j, h, other.id)
			}
		}
	}
	old := e.gangs[g.ID]
	if old == nil {
		old = &known{placed: map[model.HolderID]spot{}}
	}
	for _, r := range old.Roles {
		for _, h := range r.Members {
			delete(e.of, h)
		}
	}
	e.countRules(&old.Gang, -1)
	e.countRules(&g, 1)
	for i := range g.Roles {
		if r := &g.Roles[i]; r.Shape == "" {
			r.Shape = shapeOf(r.Request)
		}
	}
	tree := newTree(&g)
	shape := shapeOfGang(&g, tree)
	same := shape == old.shape && g.Queue == old.Queue && g.Runtime == old.Runtime
	if !same {
		e.unreserve(func(r *reservation) bool { return r.id == g.ID && r.until == 0 })
	}
	k := &known{
		Gang: g, placed: old.placed, have: make([]int, len(g.Roles)), started: old.started, shape: shape, tree: tree, rank: old.rank, futile: old.futile,
		restUntil: old.restUntil, failures: old.failures, lastRefusal: old.lastRefusal,
	}
	if same && g.Priority == old.Priority {
		k.retries, k.mends = old.retries, old.mends
	}
	if same {
		k.promised = old.promised
	}
	e.gangs[g.ID] = k
	for role, r := range g.Roles {
		k.exists += len(r.Members)
		for _, h := range r.Members {
			e.of[h] = seat{g.ID, role}
			if s, ok := k.placed[h]; ok {
				k.placed[h] = spot{role, s.node, s.bound, s.charge}
				k.have[role]++
				k.used = k.used.Plus(s.charge)
			}
			e.confirm(k, h)
		}
	}
	if tree != nil {
		k.setMin()
	}
	for h := range k.placed { // each on its own
		if e.of[h].id != g.ID {
			e.lose(h)
			e.forget(h)
			delete(k.placed, h)
			e.freed++
		}
	}
	e.recount(k)
	return nil
}

// countRules counts roles with rules about other holders.
func (e *Engine) countRules(g *Gang, by int) {
	for _, r := range g.Roles {
		if r.KeepsApart {
			e.apart += by
		}
		if len(r.Request.Affinity) > 0 {
			e.affine += by
		}
	}
}

// Found tells of a member that runs already since a time: the ledger has its claim.
func (e *Engine) Found(h model.HolderID, node model.NodeID, since int64) {
	if k := e.gangOf(h); k != nil {
		e.found(k, h, node, since)
		e.recount(k)
	}
}

func (e *Engine) found(k *known, h model.HolderID, node model.NodeID, since int64) {
	if len(k.placed) == 0 || since < k.started {
		k.started = since
	}
	e.put(k, h, spot{role: e.of[h].role, node: node})
}

// Undo takes back the start of members that could not be carried out: they wait
// again. Members that are confirmed in the ledger by now run, and stay. A caller that
// undoes one member of a start undoes all, or the gang stays below its minimum until it
// is repaired.
func (e *Engine) Undo(id ID, members []model.HolderID) {
	k := e.gangs[id]
	if k == nil {
		return
	}
	undone := false
	for _, h := range members {
		if _, c, held := e.ledger.Claim(h); held && !c.Assumed || e.of[h].id != id {
			continue
		}
		e.ledger.Drop(h)
		e.remove(k, h)
		delete(e.leaving, h)
		undone = true
	}
	if undone {
		e.startUndone(k)
	}
	e.freed++
	e.recount(k)
}

// Withdraw takes a gang away, with all that was promised to it.
func (e *Engine) Withdraw(id ID) {
	k := e.gangs[id]
	if k == nil {
		return
	}
	for _, r := range k.Roles {
		for _, h := range r.Members {
			e.lose(h)
			e.forget(h)
			delete(e.of, h)
			delete(e.leaving, h)
		}
	}
	e.countRules(&k.Gang, -1)
	e.freed++
	clear(k.placed)
	e.index(k)
	e.tree.Remove(arbiter.JobID(id))
	delete(e.gangs, id)
	e.unreserve(func(r *reservation) bool { return r.id == id })
}

// SetQueues replaces the queues; see arbiter.Tree.SetQueues.
func (e *Engine) SetQueues(queues []arbiter.Queue) error {
	e.Changed()
	return e.tree.SetQueues(queues)
}

// SetQuotas replaces the quotas of all namespaces.
func (e *Engine) SetQuotas(quotas []arbiter.Quota) error {
	e.Changed()
	return e.tree.SetQuotas(quotas)
}

// QueueOf is the queue that is charged for a holder.
func (e *Engine) QueueOf(h model.HolderID) string {
	if k := e.gangOf(h); k != nil {
		return k.queue()
	}
	return ""
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
	s, ok := e.of[h]
	return s.id, ok
}

// gangOf is the gang of a holder, or nil.
func (e *Engine) gangOf(h model.HolderID) *known { return e.gangs[e.of[h].id] }

// NodeOf is where a holder has its place; empty when it has none.
func (e *Engine) NodeOf(h model.HolderID) model.NodeID {
	if k := e.gangOf(h); k != nil {
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

// put and remove change which members have a place; recount or index must follow.
func (e *Engine) put(k *known, h model.HolderID, s spot) {
	e.remove(k, h)
	s.charge = e.chargeOf(h, &k.Roles[s.role])
	k.placed[h] = s
	k.counted(s.role, 1)
	k.used = k.used.Plus(s.charge)
}

func (e *Engine) remove(k *known, h model.HolderID) {
	if s, ok := k.placed[h]; ok {
		k.counted(s.role, -1)
		k.used = k.used.Minus(s.charge)
		delete(k.placed, h)
	}
}

// counted counts members of a role that have a place.
func (g *known) counted(role, by int) {
	g.have[role] += by
	if g.tree != nil {
		g.tree.known = nil
	}
}

// take writes down a plan that was kept in the ledger.
func (e *Engine) take(k *known, plan *gang.Plan, now int64) {
	if len(k.placed) == 0 {
		k.started = now
	}
	for _, p := range plan.Placements {
		e.put(k, p.Holder, spot{role: p.Role, node: p.Node})
	}
	if e.affine > 0 {
		e.freed++ // others may wait for its company
	}
	if k.missing() == 0 {
		if e.reservationOf(k.ID) != nil {
			k.futile.kept = k.nodes()
		}
		e.unreserve(func(r *reservation) bool { return r.id == k.ID })
	}
	e.index(k)
}

// Tick tells the time. now must not go back.
func (e *Engine) Tick(now int64) { e.now = max(e.now, now) }
