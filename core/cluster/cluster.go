package cluster

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// Cluster is nodes, queues and gangs. Not safe for concurrent use.
type Cluster struct {
	*Roster
	*Accounts
	*Rules
	ledger  *ledger.Ledger
	planner *planner.Planner
	memo    *memo.Memo
	options *Options

	// empty answers what would fit if nothing ran; nil before it is asked.
	empty *gang.Empty
}

// New returns a cluster over a ledger, its planner and a tree of queues. From now on only
// this cluster changes them.
func New(l *ledger.Ledger, p *planner.Planner, t *arbiter.Tree, m *memo.Memo, o *Options) *Cluster {
	r := newRoster()
	a := &Accounts{ledger: l, planner: p, tree: t, memo: m, roster: r}
	return &Cluster{
		Roster: r, Accounts: a, Rules: &Rules{ledger: l, memo: m, options: o, roster: r},
		ledger: l, planner: p, memo: m, options: o,
	}
}

// Ledger is which holder has which device, to read only.
func (c *Cluster) Ledger() *ledger.Ledger { return c.ledger }

// Planner ranks nodes for requests; to read only.
func (c *Cluster) Planner() *planner.Planner { return c.planner }

// Options are how gangs are decided about.
func (c *Cluster) Options() *Options { return c.options }

// Memo is what is known to fail.
func (c *Cluster) Memo() *memo.Memo { return c.memo }

// RunningOn yields the gangs that run, or those with a member on some nodes when given.
func (c *Cluster) RunningOn(only []model.NodeID) iter.Seq[*Tracked] {
	if only == nil {
		return maps.Values(c.running)
	}
	return func(yield func(*Tracked) bool) {
		seen := map[*Tracked]bool{}
		for _, id := range only {
			for claim := range c.ledger.EachClaim(id) {
				o := c.GangOf(claim.Holder)
				if o == nil || seen[o] || c.running[o.ID] == nil {
					continue
				}
				if seen[o] = true; !yield(o) {
					return
				}
			}
		}
	}
}

// Submitted is what became of a gang that was submitted.
type Submitted struct {
	Gang *Tracked
	// Lost are members that had a place and are members no more; tell Abandon.
	Lost []model.HolderID
	// Fits: it fits where the one of this name fitted before, by the same queue and until
	// the same time. Alike: and it has the same priority.
	Fits, Alike bool
	// Confirmed: members turned out to be bound.
	Confirmed bool
}

// Submit adds a gang or replaces what is known of it; Recount must follow. The cluster keeps
// the gang's slices: the caller must not change them.
func (c *Cluster) Submit(g Gang) (Submitted, error) {
	if err := g.Validate(); err != nil {
		return Submitted{}, fmt.Errorf("gang %q: %w", g.ID, err)
	}
	for i, r := range g.Roles {
		for j, h := range r.Members {
			if other, ok := c.members[h]; ok && other.gang != g.ID {
				return Submitted{}, fmt.Errorf("gang %q: roles[%d].members[%d]: %q is a member of gang %q", g.ID, i, j, h, other.gang)
			}
		}
	}
	old := c.gangs[g.ID]
	if old == nil {
		old = &Tracked{placed: map[model.HolderID]Place{}}
	}
	for _, r := range old.Roles {
		for _, h := range r.Members {
			delete(c.members, h)
		}
	}
	c.countRules(&old.Gang, -1)
	c.countRules(&g, 1)
	for i := range g.Roles {
		if r := &g.Roles[i]; r.Shape == "" {
			r.Shape = shapeOfRequest(r.Request)
		}
	}
	k := &Tracked{Gang: g, Memo: old.Memo, placed: old.placed, have: make([]int, len(g.Roles)), started: old.started, rank: old.rank}
	k.tree = newTree(k)
	k.shape = shapeOf(&g, k.tree)
	out := Submitted{Gang: k, Fits: k.shape == old.shape && g.Queue == old.Queue && g.Runtime == old.Runtime}
	out.Alike = out.Fits && g.Priority == old.Priority
	k.Memo.Changed(out.Alike)
	c.gangs[g.ID] = k
	for role, r := range g.Roles {
		k.exists += len(r.Members)
		for _, h := range r.Members {
			c.members[h] = membership{g.ID, role}
			if p, ok := k.placed[h]; ok {
				k.placed[h] = Place{role, p.Node, p.Bound, p.Charge}
				k.have[role]++
				k.used = k.used.Plus(p.Charge)
			}
			out.Confirmed = c.Confirm(k, h) || out.Confirmed
		}
	}
	if k.tree != nil {
		k.tree.setMin()
	}
	for h := range k.placed {
		if c.members[h].gang != g.ID {
			out.Lost = append(out.Lost, h)
		}
	}
	slices.Sort(out.Lost)
	return out, nil
}

// Abandon ends what was promised to a member that is a member no more.
func (c *Cluster) Abandon(k *Tracked, h model.HolderID) {
	c.Forget(h)
	delete(k.placed, h)
	c.memo.Note(memo.GangChanged)
}

// Withdraw ends what a member was promised, and its membership.
func (c *Cluster) Withdraw(h model.HolderID) {
	c.Forget(h)
	delete(c.members, h)
}

// Remove takes a gang away whose members were withdrawn.
func (c *Cluster) Remove(k *Tracked) {
	c.countRules(&k.Gang, -1)
	c.memo.Note(memo.GangChanged)
	clear(k.placed)
	c.index(k)
	c.tree.Remove(arbiter.JobID(k.ID))
	delete(c.gangs, k.ID)
}
