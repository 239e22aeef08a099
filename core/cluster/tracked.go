package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Tracked is a gang with the places of its members. Only this package changes it.
type Tracked struct {
	Gang
	// Memo is what is remembered of it; memo's to change.
	Memo memo.Gang
	// placed are the members that have a place, and where; have counts them by role.
	placed map[model.HolderID]Place
	have   []int
	// used is what the members that have a place are charged together.
	used arbiter.Amounts
	// exists is how many members there are.
	exists int
	// tree are its subgroups; nil when it has none.
	tree *tree
	// started is when the first member got its place; valid while placed is not empty.
	started int64
	// shape is the same for gangs that fit alike.
	shape model.GangShape
	// rank is where it is counted among those that can be evicted; nil: nowhere.
	rank *Rank
}

// Place is where a member has its place.
type Place struct {
	Role int
	Node model.NodeID
	// Bound: the API has confirmed it.
	Bound bool
	// Charge is what the member is charged there.
	Charge arbiter.Amounts
}

// Rank is a queue and a priority.
type Rank struct {
	Queue    string
	Priority int32
}

// QueueName is the queue's name, also where the gang names none.
func (g *Tracked) QueueName() string { return cmp.Or(g.Queue, arbiter.Default) }

// Placed is how many members have a place.
func (g *Tracked) Placed() int { return len(g.placed) }

// PlaceOf is where a member has its place; false when it has none.
func (g *Tracked) PlaceOf(h model.HolderID) (Place, bool) {
	p, ok := g.placed[h]
	return p, ok
}

// Places are the members that have a place, in no order.
func (g *Tracked) Places() iter.Seq2[model.HolderID, Place] { return maps.All(g.placed) }

// PlacedMembers are the members that have a place, sorted.
func (g *Tracked) PlacedMembers() []model.HolderID { return slices.Sorted(maps.Keys(g.placed)) }

// Have is how many members of a role have a place.
func (g *Tracked) Have(role int) int { return g.have[role] }

// Used is what the members that have a place are charged together.
func (g *Tracked) Used() arbiter.Amounts { return g.used }

// Exists is how many members there are.
func (g *Tracked) Exists() int { return g.exists }

// Started is when the first member got its place; valid while one has.
func (g *Tracked) Started() int64 { return g.started }

// Shape is the same for gangs that fit alike.
func (g *Tracked) Shape() model.GangShape { return g.shape }

// Missing is how many members it needs beyond those that have a place, of each role
// and in all.
func (g *Tracked) Missing() int {
	if g.tree != nil {
		return g.tree.missing()
	}
	roles := 0
	for i, r := range g.Roles {
		roles += max(0, r.Min-g.have[i])
	}
	return max(roles, g.Min-len(g.placed))
}

// Nodes are where its members have their places, sorted.
func (g *Tracked) Nodes() []model.NodeID {
	var out []model.NodeID
	for _, p := range g.placed { // sorted below
		out = append(out, p.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Ask is what the gang wants now: members without a place, at least least of them.
func (g *Tracked) Ask(least int) *gang.Ask {
	if g.tree != nil {
		return g.tree.ask(g.tree.goal())
	}
	a := &gang.Ask{Min: least, Require: g.Require, Terse: true, Beside: g.Nodes()}
	for i, r := range g.Roles {
		role := gang.Role{Name: r.Name, Request: r.Request, Min: max(0, r.Min-g.have[i])}
		for _, h := range r.Members {
			if _, ok := g.placed[h]; !ok {
				role.Members = append(role.Members, h)
			}
		}
		a.Roles = append(a.Roles, role)
	}
	return a
}

// Demand is what the gang needs now: the members that the arbiter counts as its
// demand, and no more, so that a gang that may start by quota may start with these.
func (g *Tracked) Demand() *gang.Ask {
	a := g.Ask(g.Missing())
	for i, n := range gang.Spread(a.Min, a.Roles) {
		r := &a.Roles[i]
		r.Members = r.Members[:min(n, len(r.Members))]
	}
	return a
}

// Single says whether all it needs is one device, or a part of one.
func (g *Tracked) Single() bool {
	return g.Min == 1 && !slices.ContainsFunc(g.Roles, func(r Role) bool { return r.Request.Distinct() > 1 })
}

// Fixed says that the gang has no choice which members to start with.
func (g *Tracked) Fixed() bool { return len(g.placed) == 0 && g.exists == g.Min }

// Complete says whether enough members exist to start, of each role and in all.
func (g *Tracked) Complete() bool {
	if g.tree != nil {
		return g.tree.complete()
	}
	for _, r := range g.Roles {
		if len(r.Members) < r.Min {
			return false
		}
	}
	return g.exists >= g.Min
}

// Awaited says of which members too few exist.
func (g *Tracked) Awaited() explain.Reason {
	if g.tree != nil {
		return g.tree.awaited()
	}
	for _, r := range g.Roles {
		if g.exists >= g.Min && len(r.Members) < r.Min {
			return explain.Reason{Code: explain.Members, Need: r.Min, Exist: len(r.Members), Role: r.Name}
		}
	}
	return explain.Reason{Code: explain.Members, Need: g.Min, Exist: g.exists}
}

// Nested says whether the gang has subgroups. The methods on units are for such gangs: a
// unit is the number of a group.
func (g *Tracked) Nested() bool { return g.tree != nil }

// UnitsToMend are the groups of a running gang that must be made whole, and can be, in the
// order in which they are tried.
func (g *Tracked) UnitsToMend() []int { return g.tree.units().mend }

// UnitsToGrow are groups that are optional, and leaves that can have more members, in the
// order in which they are tried.
func (g *Tracked) UnitsToGrow() []int { return g.tree.units().more }

// UnitWhole says whether a group has its minimum.
func (g *Tracked) UnitWhole(unit int) bool { return g.tree.units().groups[unit].whole }

// AskForUnit is what the gang asks for to make a group whole.
func (g *Tracked) AskForUnit(unit int) *gang.Ask { return g.tree.ask(unit) }

// UnitNeeds is how many more members of each role the minimum of a group takes.
func (g *Tracked) UnitNeeds(unit int) []int { return g.tree.least(unit, false) }

// Split cuts the gang into what may be evicted by itself: members beyond its minimum, the
// last ones first, groups beyond those that are needed, and all of it. What is left after
// any of them is whole.
func (g *Tracked) Split(add func(members []model.HolderID, whole bool)) {
	if g.tree != nil {
		g.tree.split(add)
		add(g.PlacedMembers(), true)
		return
	}
	spare := len(g.placed) - g.Min
	for i := len(g.Roles) - 1; i >= 0; i-- {
		spareRole := g.have[i] - g.Roles[i].Min
		for _, h := range slices.Backward(g.Roles[i].Members) {
			if _, placed := g.placed[h]; placed && spare > 0 && spareRole > 0 {
				add([]model.HolderID{h}, false)
				spare, spareRole = spare-1, spareRole-1
			}
		}
	}
	add(g.PlacedMembers(), true)
}

// Whole is the gang as if no member had a place: what it asks for to start.
func (g *Tracked) Whole() *gang.Ask {
	if g.tree != nil {
		fresh := &Tracked{Gang: g.Gang, have: make([]int, len(g.Roles))}
		fresh.tree = newTree(fresh)
		whole := fresh.tree.ask(0)
		whole.Terse = false
		return whole
	}
	whole := &gang.Ask{Min: g.Min, Require: g.Require}
	for _, r := range g.Roles {
		whole.Roles = append(whole.Roles, gang.Role{Name: r.Name, Request: r.Request, Members: r.Members, Min: r.Min})
	}
	return whole
}

// count counts members of a role that got or lost a place.
func (g *Tracked) count(role, by int) {
	g.have[role] += by
	if g.tree != nil {
		g.tree.counted = nil
	}
}

// shapeOf is the shape of a gang with its subgroups.
func shapeOf(g *Gang, t *tree) model.GangShape {
	b := make([]byte, 0, 128)
	b = strconv.AppendInt(b, int64(g.Min), 10)
	b = append(append(b, ' '), g.Require.Name...)
	for _, r := range g.Roles {
		b = append(b, '|')
		b = append(strconv.AppendInt(b, int64(r.Min), 10), ' ')
		b = append(strconv.AppendInt(b, int64(len(r.Members)), 10), ' ')
		b = append(append(strconv.AppendInt(b, int64(r.MaxPerNode), 10), ' '), r.Shape...)
	}
	if t != nil {
		b = t.appendShape(b)
	}
	return model.GangShape(b)
}

// shapeOfRequest is the shape of a role that brings none.
func shapeOfRequest(r *model.Request) model.Shape { return model.Shape(r.FitKey() + r.RankKey()) }
