package engine

import (
	"slices"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// mend makes the groups of a running gang whole that lost members, each for itself, and
// starts those that are needed in place of others. It says whether one of them needs room.
//
// A step tries some of them (maxMends); the next one goes on with the others. Once all have
// been tried, those that failed are tried again when something has changed (mending).
func (e *Engine) mend(d *Plan, k *known, now int64) (short bool) {
	m := &k.mends
	if !e.worthTrying(k, mending) {
		return m.short
	}
	if m.tried == nil {
		m.tried, m.freed, m.fails, m.shortNow = map[int]bool{}, e.freed, false, false
	}
	for n := 0; ; n++ {
		at := slices.IndexFunc(k.units().mend, func(i int) bool { return !m.tried[i] })
		if at < 0 {
			break
		}
		if n == maxMends {
			d.More = true
			return m.short || m.shortNow
		}
		unit := k.units().mend[at]
		m.tried[unit] = true
		if s, ok := e.tryAsk(k, e.limited(k, k.askFor(unit)), nil, now); ok {
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
			continue
		}
		m.fails = true
		m.shortNow = m.shortNow || !e.allows(k, k.least(unit, false)).ForQuota()
	}
	m.tried, m.short = nil, m.shortNow
	if m.fails {
		e.failed(k, mending)
		k.retries[mending].freed = m.freed // what was freed meanwhile may help the first ones
	} else {
		k.succeeded(mending)
	}
	return m.short
}

// maxMends is how many groups of a gang a step tries to make whole.
const maxMends = 16

// mends is how far it is with making a gang's groups whole.
type mends struct {
	// tried are the groups tried since freed was the engine's; nil: all have been. fails,
	// shortNow: one of them failed, for want of room.
	tried           map[int]bool
	freed           uint64
	fails, shortNow bool
	// short: when all had been tried, one of them needed room.
	short bool
}

// growTree starts optional groups of a running gang, each whole, and gives leaves more
// members, as far as there is room.
func (e *Engine) growTree(d *Plan, k *known, now int64) {
	tried, failed := map[int]bool{}, false
	for e.worthTrying(k, growing) && len(k.units().mend) == 0 {
		at := slices.IndexFunc(k.units().more, func(i int) bool { return !tried[i] })
		if at < 0 {
			break
		}
		unit := k.units().more[at]
		tried[unit] = true
		ask := e.limited(k, k.askFor(unit))
		if k.units().groups[unit].whole {
			ask.Tree.Groups[unit].Min = 0 // more members, whichever fit
		}
		s, ok := e.tryAsk(k, ask, nil, now)
		if !ok {
			failed = true
			continue
		}
		s.Repair = true
		d.Starts = append(d.Starts, s)
		e.recount(k)
	}
	if failed {
		e.failed(k, growing)
	}
}

// splitTree cuts a gang with subgroups into what may be evicted by itself: members of a
// leaf beyond its minimum, groups beyond those that are needed, the last ones first. What is
// left after any of them is whole.
func (g *known) splitTree(add func(hs []model.HolderID, whole bool)) {
	u, t := g.units(), g.tree
	for i := len(t.groups) - 1; i >= 0; i-- {
		group, c := &t.groups[i], &u.groups[i]
		if c.placed == 0 {
			continue
		}
		if len(group.children) == 0 {
			spare := c.placed - group.Min
			for _, h := range slices.Backward(g.membersIn(i)) {
				if spare <= 0 {
					break
				}
				add([]model.HolderID{h}, false)
				spare--
			}
			continue
		}
		spare := -group.needs()
		for _, child := range group.children {
			if u.groups[child].whole {
				spare++
			}
		}
		for _, child := range slices.Backward(group.children) {
			o := &u.groups[child]
			switch {
			case o.placed == 0 || spare < 0:
			case !o.whole:
				add(g.membersIn(child), false)
			case spare > 0:
				add(g.membersIn(child), false)
				spare--
			}
		}
	}
}

// membersIn are the members of a group that have a place, in the order in which they
// start.
func (g *known) membersIn(i int) []model.HolderID {
	var out []model.HolderID
	for role, leaf := range g.tree.leaf {
		if !g.inside(leaf, i) {
			continue
		}
		for _, h := range g.Roles[role].Members {
			if _, placed := g.placed[h]; placed {
				out = append(out, h)
			}
		}
	}
	return out
}

// limited lets what is asked for have as much as the gang's queue and namespace allow.
func (e *Engine) limited(k *known, ask *gang.Ask) *gang.Ask {
	ask.Allow = func(counts []int) bool { return e.allows(k, counts).Code == 0 }
	return ask
}
