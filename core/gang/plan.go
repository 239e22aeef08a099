package gang

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// Make plans a gang and takes its devices: on success the ledger has an assumed claim
// for every member placed, on failure it is unchanged. For a question without effect,
// call it inside a trial and roll that back.
func Make(l *ledger.Ledger, p *planner.Planner, ask *Ask) (Plan, *Failure) {
	m := newMaker(l, p, ask)
	if ask.Tree != nil {
		return newNest(m).plan()
	}
	if m.members < m.least || slices.ContainsFunc(ask.Roles, func(r Role) bool { return len(r.Members) < r.Min }) {
		m.failure.Placed, m.failure.Exist, m.failure.Domains = 0, m.members, 1
		return Plan{}, &m.failure
	}
	// A gang that already runs prefers its missing members near the running ones to more
	// members far away.
	if m.members > m.least && len(ask.Beside) == 0 && m.allowsAll() {
		m.goal = m.members
		if plan, ok := m.search(); ok {
			return plan, nil
		}
	}
	m.goal = m.least
	if plan, ok := m.search(); ok {
		return plan, nil
	}
	if m.least == 0 {
		return Plan{}, nil // only optional members found no node
	}
	if plan, ok := m.weigh(); ok {
		return plan, nil
	}
	m.explain()
	return Plan{}, &m.failure
}

func newMaker(l *ledger.Ledger, p *planner.Planner, ask *Ask) *maker {
	m := &maker{l: l, p: p, ask: ask, least: ask.least(), members: ask.members()}
	m.failure = Failure{Need: m.least, Placed: -1, Level: ask.Require.Name}
	for i := range ask.Roles {
		m.order = append(m.order, i)
	}
	// Large requests first: small ones fit beside them more often than the reverse.
	slices.SortStableFunc(m.order, func(a, b int) int {
		x, y := ask.Roles[a].Request, ask.Roles[b].Request
		return cmp.Or(y.Distinct()-x.Distinct(), cmp.Compare(y.Host.CPU, x.Host.CPU))
	})
	return m
}

func (m *maker) allowsAll() bool {
	if m.ask.Allow == nil {
		return true
	}
	counts := make([]int, len(m.ask.Roles))
	for i, r := range m.ask.Roles {
		counts[i] = len(r.Members)
	}
	return m.ask.Allow(counts)
}

// maker makes one plan.
type maker struct {
	l     *ledger.Ledger
	p     *planner.Planner
	ask   *Ask
	order []int // roles in the order of placing
	// least is how many members must be placed, members how many can be, goal how many
	// the present search is for.
	least, members, goal int
	failure              Failure
	// furthest is the scope of the attempt that failure describes; within is where a part of
	// a gang was to be placed.
	furthest, within scope
	usable           map[usable]model.Mask
}

// scope is where members may go: some nodes, or all.
type scope struct {
	path  string
	nodes []model.NodeID // sorted; nil for the whole cluster
}

func (m *maker) search() (Plan, bool) {
	m.failure.Domains = 0
	for s := range m.scopes() {
		m.failure.Domains++
		if plan, ok := m.fill(s, nil); ok {
			return plan, true
		}
	}
	return Plan{}, false
}

// wanted is how many members of a role the present search must place.
func (m *maker) wanted(role int) int {
	r := &m.ask.Roles[role]
	switch {
	case m.goal == m.members:
		return len(r.Members)
	case len(m.ask.Roles) == 1:
		return m.goal
	}
	return r.Min
}

// scopes yields where to try, the tightest scope first.
func (m *maker) scopes() iter.Seq[scope] {
	require := m.ask.Require
	bound := require.Name != "" && require.Depth != model.NodeDepth
	switch {
	case m.ask.Within != nil && require.Name != "":
		return m.partsOf(m.ask.Within)
	case m.ask.Within != nil:
		return one(scope{nodes: m.ask.Within})
	case m.beside() != nil:
		return m.nearby(m.beside(), bound)
	case require.Name != "" && !bound:
		nodes, _ := m.l.Size()
		return m.singleNodes(nodes)
	case m.members == 1 && !bound:
		return one(scope{}) // a single member shares every domain with itself
	}
	return m.outwards(bound)
}

func one(s scope) iter.Seq[scope] { return func(yield func(scope) bool) { yield(s) } }

// beside are the nodes of running members that still exist.
func (m *maker) beside() []model.NodeID {
	var out []model.NodeID
	for _, id := range m.ask.Beside {
		if _, there := m.l.View(id); there {
			out = append(out, id)
		}
	}
	return out
}
