package cluster

import (
	"slices"
	"strconv"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// A gang with subgroups starts with its minimum, all at once or none. Which groups those
// are when there are more than are needed, the planner decides; the first ones whose
// members exist are asked for first, and counted as the gang's demand.
//
// Of a gang that runs, units are placed, each for itself, in the domain of the groups
// around it: a leaf that lost members, or a group in place of one that is gone; then
// optional groups, each whole, and optional members.

// tree is the subgroups of a gang.
type tree struct {
	// gang is whose subgroups they are.
	gang *Tracked
	// groups are the gang, at 0, and its subgroups, each after its parent.
	groups []treeGroup
	// leaf is the group of each role.
	leaf []int
	// counted is what exists and has a place; nil: to be counted.
	counted *units
}

// treeGroup is a gang or a subgroup: parent and children are numbers of groups.
type treeGroup struct {
	Subgroup
	parent          int
	children, roles []int
}

// needs is how many of its children a group needs.
func (g *treeGroup) needs() int {
	if g.MinGroups > 0 {
		return g.MinGroups
	}
	return len(g.children)
}

// newTree is nil for a gang without subgroups, which must be valid.
func newTree(g *Tracked) *tree {
	if len(g.Subgroups) == 0 {
		return nil
	}
	t := &tree{gang: g, groups: []treeGroup{{Subgroup: Subgroup{MinGroups: g.MinGroups, Require: g.Require}, parent: -1}}}
	at := map[string]int{"": 0}
	for i := 0; i < len(t.groups); i++ { // parents before their children
		for _, s := range g.Subgroups {
			if s.Parent == t.groups[i].Name {
				at[s.Name] = len(t.groups)
				t.groups[i].children = append(t.groups[i].children, len(t.groups))
				t.groups = append(t.groups, treeGroup{Subgroup: s, parent: i})
			}
		}
	}
	for role, r := range t.gang.Roles {
		leaf := at[r.Subgroup]
		t.leaf = append(t.leaf, leaf)
		t.groups[leaf].roles = append(t.groups[leaf].roles, role)
	}
	return t
}

// appendShape adds to a gang's shape what is particular about its subgroups.
func (t *tree) appendShape(b []byte) []byte {
	for i := range t.groups {
		g := &t.groups[i]
		b = append(b, '/')
		for _, n := range []int{g.parent, g.Min, g.MinGroups} {
			b = append(strconv.AppendInt(b, int64(n), 10), ' ')
		}
		b = append(append(append(b, g.Require.Name...), ' '), g.Prefer.Name...)
	}
	for _, leaf := range t.leaf {
		b = append(strconv.AppendInt(b, int64(leaf), 10), ' ')
	}
	return b
}

// units is what a gang with subgroups has, and what is to be done next.
type units struct {
	groups []unit
	// mend are groups of a running gang that must be made whole, and can be; lacking those
	// for which members do not exist. more are optional: groups, and leaves that can have
	// more members. Each in the order in which it is tried.
	mend, lacking, more []int
}

// unit is a group: members that exist and that have a place. whole: it has its minimum;
// can: with all members that exist it would have.
type unit struct {
	exist, placed int
	whole, can    bool
}

// units counts a gang's groups.
func (t *tree) units() *units {
	if t.counted != nil {
		return t.counted
	}
	u := &units{groups: make([]unit, len(t.groups))}
	for i := len(t.groups) - 1; i >= 0; i-- { // children before their parents
		group, c := &t.groups[i], &u.groups[i]
		whole, can := 0, 0
		for _, role := range group.roles {
			c.exist += len(t.gang.Roles[role].Members)
			c.placed += t.gang.have[role]
		}
		for _, child := range group.children {
			o := &u.groups[child]
			c.exist, c.placed = c.exist+o.exist, c.placed+o.placed
			if o.whole {
				whole++
			}
			if o.can {
				can++
			}
		}
		if len(group.children) == 0 {
			c.whole, c.can = c.placed >= group.Min, c.exist >= group.Min
		} else {
			c.whole, c.can = whole >= group.needs(), can >= group.needs()
		}
	}
	t.counted = u
	if u.groups[0].placed > 0 {
		u.next(t, 0)
	}
	return u
}

// next lists what is to be done in a group of which members have a place.
func (u *units) next(t *tree, i int) {
	group, c := &t.groups[i], &u.groups[i]
	if len(group.children) == 0 {
		switch {
		case c.whole && c.exist > c.placed:
			u.more = append(u.more, i)
		case c.whole:
		case c.can:
			u.mend = append(u.mend, i)
		default:
			u.lacking = append(u.lacking, i)
		}
		return
	}
	have := 0 // whole, or being mended
	var idle []int
	for _, child := range group.children {
		o := &u.groups[child]
		if o.placed > 0 || o.whole {
			u.next(t, child)
		} else {
			idle = append(idle, child)
		}
		if o.whole || o.placed > 0 && o.can {
			have++
		}
	}
	for _, child := range idle {
		switch {
		case u.groups[child].can && have < group.needs():
			u.mend = append(u.mend, child)
			have++
		case u.groups[child].can && c.whole:
			u.more = append(u.more, child)
		}
	}
	if have < group.needs() {
		for _, child := range idle {
			if !u.groups[child].can {
				u.lacking = append(u.lacking, child)
				return
			}
		}
	}
}

// goal is the group that is to be made whole now, and how many more members it needs if it
// is a leaf.
func (t *tree) goal() int {
	u := t.units()
	switch {
	case u.groups[0].placed == 0:
		return 0
	case len(u.mend) > 0:
		return u.mend[0]
	case len(u.lacking) > 0:
		return u.lacking[0]
	case len(u.more) > 0:
		return u.more[0]
	}
	return 0
}

// missing is how many members the gang needs next: to start, or to make a group whole.
func (t *tree) missing() int {
	u := t.units()
	switch {
	case u.groups[0].placed > 0 && len(u.mend)+len(u.lacking) == 0:
		return 0
	case u.groups[0].placed == 0 && !u.groups[0].can:
		return t.gang.Min
	}
	goal := t.goal()
	sum := 0
	for _, n := range t.least(goal, false) {
		sum += n
	}
	if sum == 0 && len(u.lacking) > 0 {
		sum = 1
	}
	return sum
}

// complete says whether enough members exist for what is to be done next.
func (t *tree) complete() bool {
	u := t.units()
	if u.groups[0].placed == 0 {
		return u.groups[0].can
	}
	return len(u.mend) > 0 || len(u.lacking) == 0
}

// least is how many members of each role the minimum of a group takes: the first members
// of the first groups that could be whole. fresh: as if no member had a place.
func (t *tree) least(i int, fresh bool) []int {
	out := make([]int, len(t.gang.Roles))
	t.addLeast(i, fresh, out)
	return out
}

func (t *tree) addLeast(i int, fresh bool, to []int) {
	u, group := t.units(), &t.groups[i]
	if len(group.children) == 0 {
		left := t.unitMin(i)
		if fresh {
			left = group.Min
		}
		for _, role := range group.roles {
			n := len(t.gang.Roles[role].Members)
			if !fresh {
				n -= t.gang.have[role]
			}
			to[role] = min(left, n)
			left -= to[role]
		}
		return
	}
	need := group.needs()
	for _, child := range group.children {
		if need > 0 && u.groups[child].can {
			t.addLeast(child, fresh, to)
			need--
		}
	}
}

// unitMin is how many more members a leaf must get when it is a goal: those that it misses,
// or one more.
func (t *tree) unitMin(leaf int) int {
	group, c := &t.groups[leaf], &t.units().groups[leaf]
	if c.placed >= group.Min && c.exist > c.placed && group.Min+c.placed > 0 {
		return 1
	}
	return max(0, group.Min-c.placed)
}

// setMin counts the gang's minimum: of the groups that could be whole, or of the first
// ones while too few could be.
func (t *tree) setMin() {
	g := t.gang
	g.Min = 0
	if t.units().groups[0].can {
		for _, n := range t.least(0, true) {
			g.Min += n
		}
	} else {
		g.Min = t.sum(0)
	}
	g.Min = max(1, g.Min)
}

// sum is the minimum of a group, whatever members exist.
func (t *tree) sum(i int) int {
	group := &t.groups[i]
	sum := group.Min
	for _, child := range group.children[:min(len(group.children), group.needs())] {
		sum += t.sum(child)
	}
	return sum
}

// ask is what the gang asks for to make a group whole.
func (t *tree) ask(goal int) *gang.Ask {
	a := &gang.Ask{Terse: true, Tree: &gang.Tree{Goal: goal}}
	for i := range t.groups {
		s := &t.groups[i]
		group := gang.Group{Name: s.Name, Parent: s.parent, Min: s.Min, MinGroups: s.MinGroups, Require: s.Require, Prefer: s.Prefer}
		if i == goal && len(s.children) == 0 {
			group.Min = t.unitMin(i)
		}
		a.Tree.Groups = append(a.Tree.Groups, group)
	}
	for _, s := range t.gang.placed { // sorted below
		for i := t.leaf[s.Role]; i >= 0; i = t.groups[i].parent {
			if group := &a.Tree.Groups[i]; !slices.Contains(group.Beside, s.Node) {
				group.Beside = append(group.Beside, s.Node)
			}
		}
	}
	for i := range a.Tree.Groups {
		slices.Sort(a.Tree.Groups[i].Beside)
	}
	least := t.least(goal, false)
	for i, r := range t.gang.Roles {
		role := gang.Role{Name: r.Name, Request: r.Request, Min: least[i], Group: t.leaf[i], Shape: string(r.Shape)}
		a.Min += least[i]
		if t.inside(t.leaf[i], goal) {
			for _, h := range r.Members {
				if _, ok := t.gang.placed[h]; !ok {
					role.Members = append(role.Members, h)
				}
			}
		}
		a.Roles = append(a.Roles, role)
	}
	return a
}

// inside says whether a group is another one or inside it.
func (t *tree) inside(i, of int) bool {
	for i > of {
		i = t.groups[i].parent
	}
	return i == of
}

// awaited says of which subgroup too few members exist.
func (t *tree) awaited() explain.Reason {
	u := t.units()
	i := 0
	if u.groups[0].placed > 0 && len(u.lacking) > 0 {
		i = u.lacking[0]
	}
	r := explain.Reason{Code: explain.Members}
	for len(t.groups[i].children) > 0 {
		group := &t.groups[i]
		complete, next := 0, -1
		for _, child := range group.children {
			if u.groups[child].can {
				complete++
			} else if next < 0 {
				next = child
			}
		}
		if i == 0 && group.needs() < len(group.children) {
			r.Groups, r.Complete = group.needs(), complete
		}
		if next < 0 {
			break
		}
		i = next
	}
	r.Subgroup, r.Need, r.Exist = t.groups[i].Name, t.groups[i].Min, u.groups[i].exist
	return r
}

// split cuts a gang with subgroups into what may be evicted by itself: members of a
// leaf beyond its minimum, groups beyond those that are needed, the last ones first. What is
// left after any of them is whole.
func (t *tree) split(add func(hs []model.HolderID, whole bool)) {
	u := t.units()
	for i := len(t.groups) - 1; i >= 0; i-- {
		group, c := &t.groups[i], &u.groups[i]
		if c.placed == 0 {
			continue
		}
		if len(group.children) == 0 {
			spare := c.placed - group.Min
			for _, h := range slices.Backward(t.membersIn(i)) {
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
				add(t.membersIn(child), false)
			case spare > 0:
				add(t.membersIn(child), false)
				spare--
			}
		}
	}
}

// membersIn are the members of a group that have a place, in the order in which they
// start.
func (t *tree) membersIn(i int) []model.HolderID {
	var out []model.HolderID
	for role, leaf := range t.leaf {
		if !t.inside(leaf, i) {
			continue
		}
		for _, h := range t.gang.Roles[role].Members {
			if _, placed := t.gang.placed[h]; placed {
				out = append(out, h)
			}
		}
	}
	return out
}
