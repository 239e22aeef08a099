package gang

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// plan plans the goal of a gang with subgroups, and what is optional inside it.
func (t *nest) plan() (Plan, *Failure) {
	goal := t.Tree.Goal
	t.search(false)
	leaves, _ := t.groups.minimum(goal)
	t.failure = Failure{Placed: -1}
	for _, g := range leaves {
		t.failure.Need += t.groups.leastOf(g)
	}
	if !t.groups.can[goal] {
		t.failure.Placed, t.failure.Exist, t.failure.Domains = 0, t.groups.members[goal], 1
		return Plan{}, &t.failure
	}
	if !t.fits(goal) {
		t.failure.Placed = max(t.failure.Placed, 0)
		t.failure.Bounded = t.cut
		t.explain()
		return Plan{}, &t.failure
	}
	t.more(goal)
	var used []model.NodeID
	for _, p := range t.placed {
		used = append(used, p.Node)
	}
	slices.Sort(used)
	return Plan{Placements: t.placed, Domain: t.scopes[goal].path, Nodes: len(slices.Compact(used))}, nil
}

// fits places the goal: with all of its members if it can, else with its minimum.
func (t *nest) fits(goal int) bool {
	in, ok := t.sites.outside(goal)
	if !ok {
		t.short(goal, 0)
		return false
	}
	if t.groups.members[goal] > t.failure.Need && len(t.groups.near(goal)) == 0 && t.sites.maker.allowsAll() {
		t.search(true)
		if t.sweep(goal, t.sites.outwards(goal, in), firstTries) {
			return true
		}
	}
	t.search(false)
	t.cut = false
	if t.sweep(goal, t.sites.outwards(goal, in), firstTries) {
		return true
	}
	if t.failure.Placed < 0 { // no scope has room by counting
		t.short(goal, 0)
	}
	widest := t.sites.alternatives(goal, in)
	if t.sites.crowded(goal, in) {
		t.cut = false
		return false
	}
	if t.cut {
		t.cut = false
		if t.sweep(goal, widest, maxTries) {
			return true
		}
	}
	if !t.groups.differ() {
		return false // members alike: weighing finds no more
	}
	t.joint = true
	return t.sweep(goal, widest, maxTries)
}

// search begins a search for all that exists, or for the minimum.
func (t *nest) search(all bool) {
	t.joint = false
	t.sites.search(all)
}

// sweep tries one scope after the other. A search for the minimum that fails in a scope
// is not tried in all ways there if the tries do not suffice.
func (t *nest) sweep(goal int, scopes iter.Seq[scope], tries int) bool {
	each := tries + triesPerGroup*t.groups.sizes[goal]
	t.tries = each
	left := scopesOfTries * each
	for s := range scopes {
		if tries < maxTries { // each scope has its own, of those for all of them
			if left -= each - max(0, t.tries); left <= 0 {
				t.cut = true
				return false
			}
			t.tries = min(each, left)
		}
		if (!t.Terse || t.sites.roomy(goal, s)) && t.inside(goal, s, t.finish) {
			return true
		}
	}
	return false
}

// within makes a group whole inside a scope, in one domain after the other, and goes on
// with then. If that fails for all of them, nothing is placed.
func (t *nest) within(g int, in scope, then func() bool) bool {
	if !t.spend() {
		return false
	}
	same := sameGroup{t.Tree.Groups[g].Parent, t.groups.alike[g]}
	before := len(t.failed[same])
	any := false
	for s := range t.sites.alternatives(g, in) {
		any = true
		if same.alike != "" && slices.Contains(t.failed[same], s.path) {
			continue // where one alike has failed
		}
		if t.inside(g, s, then) {
			return true
		}
		if t.tries <= 0 {
			break
		}
		t.failed[same] = append(t.failed[same], s.path)
	}
	if !any {
		t.short(g, 0)
	}
	t.failed[same] = t.failed[same][:before]
	return false
}

// inside makes a group whole in exactly this scope, and goes on with then.
func (t *nest) inside(g int, s scope, then func() bool) bool {
	t.chosen[g], t.scopes[g] = true, s
	ok := false
	switch {
	case !t.groups.isLeaf(g):
		ok = t.some(g, s, t.roomyOnes(g, s), t.groups.needed(g), then)
	case t.groups.leastOf(g) == 0:
		ok = then()
	case t.joint || t.Tree.Groups[g].Require.Name == "" && g != t.Tree.Goal:
		// It leaves to others the nodes that only they can use.
		t.last = append(t.last, g)
		ok = (!t.joint || t.could(g, s)) && then()
		t.last = t.last[:len(t.last)-1]
	default:
		ok = t.put(g, s, then)
	}
	if !ok {
		t.chosen[g] = false
	}
	return ok
}

// spend takes one of the tries; false when there is none left.
func (t *nest) spend() bool {
	t.tries--
	t.cut = t.cut || t.tries < 0
	return t.tries >= 0
}

// could counts whether a leaf has room in a scope, as one of the tries.
func (t *nest) could(g int, s scope) bool {
	return t.spend() && (s.nodes == nil || t.sites.leaf(g).could(s.nodes))
}

// roomyOnes are the children of a group that have room in a scope, by counting, each for
// itself: what cannot be is seen before others are tried in all ways.
func (t *nest) roomyOnes(g int, s scope) []int {
	all := t.groups.complete(g)
	t.tries -= len(all) / triesPerGroup
	out := make([]int, 0, len(all))
	for i, c := range all {
		any := i > 0 && t.groups.alike[c] != "" && t.groups.alike[c] == t.groups.alike[all[i-1]] && len(out) > 0 && out[len(out)-1] == all[i-1]
		if !any {
			for range t.sites.alternatives(c, s) {
				any = true
				break
			}
		}
		if any {
			out = append(out, c)
			continue
		}
		if t.short(c, 0); len(out)+len(all)-i-1 < t.groups.needed(g) {
			return nil
		}
	}
	return out
}

// some makes so many of a group's children whole, and goes on with then.
func (t *nest) some(g int, s scope, from []int, need int, then func() bool) bool {
	if need == 0 {
		return then()
	}
	if len(from) < need {
		return false
	}
	c := from[0]
	if t.within(c, s, func() bool { return t.some(g, s, from[1:], need-1, then) }) {
		return true
	}
	// Not with this one, so with none that is alike.
	next := 1
	for next < len(from) && t.groups.alike[c] != "" && t.groups.alike[from[next]] == t.groups.alike[c] {
		next++
	}
	return t.tries > 0 && t.some(g, s, from[next:], need, then)
}

// put places the members that a leaf must have, and goes on with then.
func (t *nest) put(g int, s scope, then func() bool) bool {
	if !t.spend() {
		return false
	}
	p := t.sites.leaf(g)
	if !t.allows(p) {
		return false
	}
	before := len(t.placed)
	tx := t.sites.maker.l.Begin()
	plan, ok := p.inside(s)
	if !ok {
		tx.Rollback()
		if p.failure.Placed <= 0 {
			p.within = s // not only a tight part of it
		}
		t.note(g, p)
		return false
	}
	t.take(p, plan.Placements)
	if then() {
		tx.Keep()
		return true
	}
	tx.Rollback()
	for _, x := range t.placed[before:] {
		t.taken[x.Role]--
	}
	t.placed = t.placed[:before]
	return false
}

// take writes down placements of a part.
func (t *nest) take(p *part, placements []Placement) {
	for _, x := range placements {
		x.Role = p.roleOf[x.Role]
		t.placed = append(t.placed, x)
		t.taken[x.Role]++
	}
}

// allows says whether the members of a part may be placed beside those that are.
func (t *nest) allows(p *part) bool {
	if t.Allow == nil {
		return true
	}
	counts := slices.Clone(t.taken)
	for i, r := range p.ask.Roles {
		counts[p.roleOf[i]] += len(r.Members)
	}
	return t.Allow(counts)
}

// finish places the leaves that were left to the end, those with the smallest scope
// first.
func (t *nest) finish() bool {
	if t.joint {
		return t.together()
	}
	return t.finishEach(slices.SortedStableFunc(slices.Values(t.last), func(a, b int) int {
		return cmp.Compare(t.scopes[a].size(), t.scopes[b].size())
	}))
}

func (t *nest) finishEach(leaves []int) bool {
	if len(leaves) == 0 {
		return true
	}
	return t.put(leaves[0], t.scopes[leaves[0]], func() bool { return t.finishEach(leaves[1:]) })
}

// size orders scopes by their number of nodes.
func (s scope) size() int {
	if s.nodes == nil {
		return int(^uint(0) >> 1)
	}
	return len(s.nodes)
}

// more places what is optional inside the goal once its minimum is: further groups, each
// whole or not at all, then further members.
func (t *nest) more(goal int) {
	t.search(false)
	clear(t.failed)
	failure, tried := t.failure, t.cut
	for g := goal; g < len(t.Tree.Groups); g++ { // parents before children
		if !t.chosen[g] {
			continue
		}
		for _, c := range t.groups.complete(g) {
			if !t.chosen[c] {
				t.tries, t.last = firstTries+triesPerGroup*t.groups.sizes[c], nil
				t.within(c, t.scopes[g], t.finish)
			}
		}
	}
	for g := goal; g < len(t.Tree.Groups); g++ {
		if t.chosen[g] && t.groups.isLeaf(g) {
			t.fill(g)
		}
	}
	t.failure, t.cut = failure, tried
}

// fill places members of a leaf beyond those that it must have, as many as fit.
func (t *nest) fill(g int) {
	ask := &Ask{Weights: t.Weights, Terse: true}
	var roleOf []int
	for _, role := range t.groups.roles[g] {
		r := t.Roles[role]
		if r.Members, r.Min = r.Members[t.taken[role]:], 0; len(r.Members) > 0 {
			ask.Roles, roleOf = append(ask.Roles, r), append(roleOf, role)
		}
	}
	if len(roleOf) == 0 {
		return
	}
	if t.Allow != nil {
		ask.Allow = func(counts []int) bool {
			all := slices.Clone(t.taken)
			for i, n := range counts {
				all[roleOf[i]] += n
			}
			return t.Allow(all)
		}
	}
	ask.Beside = slices.Clone(t.groups.near(g))
	for _, x := range t.placed {
		if slices.Contains(t.groups.roles[g], x.Role) && !slices.Contains(ask.Beside, x.Node) {
			ask.Beside = append(ask.Beside, x.Node)
		}
	}
	p := t.sites.partOf(ask, roleOf)
	f := newFilling(p.maker, t.scopes[g])
	for _, role := range p.order {
		f.upTo(role, len(ask.Roles[role].Members))
	}
	t.take(p, f.placed)
}
