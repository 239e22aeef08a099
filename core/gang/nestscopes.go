package gang

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// sites says where groups of a gang may be placed, by the domains and what is free there.
// It places nothing.
type sites struct {
	groups *groups
	maker  *maker // for the ledger, and nodes that run members
	nodes  []model.NodeID
	// leaves are those that were asked for, as plain gangs of the members that the present
	// search is for.
	leaves map[int]*part
}

// search begins a search for all that exists, or for the minimum.
func (t *sites) search(all bool) { t.groups.all, t.leaves = all, map[int]*part{} }

// part is leaves of a gang as a plain gang.
type part struct {
	*maker
	// roleOf is the gang's role of each of its roles.
	roleOf []int
}

// leaf is a leaf as a plain gang of the members that it must have.
func (t *sites) leaf(g int) *part {
	p := t.leaves[g]
	if p == nil {
		p = t.flat([]int{g})
		p.ask.Beside = t.groups.near(g)
		t.leaves[g] = p
	}
	p.failure, p.furthest, p.within = Failure{Need: p.least, Placed: -1}, scope{}, scope{}
	return p
}

// flat is leaves as a plain gang: the members that they must have, all of them needed.
func (t *sites) flat(leaves []int) *part {
	ask := &Ask{Weights: t.groups.Weights, Terse: true}
	var roleOf []int
	for _, g := range leaves {
		for i, n := range t.groups.counts(g) {
			if role := t.groups.roles[g][i]; n > 0 {
				r := t.groups.Roles[role]
				r.Members, r.Min = r.Members[:n], n
				ask.Roles, roleOf = append(ask.Roles, r), append(roleOf, role)
			}
		}
	}
	return t.partOf(ask, roleOf)
}

// partOf completes a part of which the members are known.
func (t *sites) partOf(ask *Ask, roleOf []int) *part {
	if t.groups.May != nil && ask.May == nil {
		ask.May = func(role int, id model.NodeID) *explain.Refusal { return t.groups.May(roleOf[role], id) }
	}
	p := &part{newMaker(t.maker.l, t.maker.p, ask), roleOf}
	p.goal = p.least
	return p
}

// outside is the scope in which the goal is to be placed: the nodes that may be used, in
// the domains of the groups above it, which run.
func (t *sites) outside(goal int) (scope, bool) {
	s := scope{nodes: t.groups.Within}
	var above []int
	for g := t.groups.Tree.Groups[goal].Parent; g >= 0; g = t.groups.Tree.Groups[g].Parent {
		above = append(above, g)
	}
	for _, g := range slices.Backward(above) {
		group := &t.groups.Tree.Groups[g]
		if beside := t.there(group.Beside); len(beside) > 0 && group.Require.Name != "" {
			var ok bool
			if s, ok = t.around(beside, group.Require, s); !ok {
				return s, false
			}
		}
	}
	return s, true
}

// there are those of some nodes that exist.
func (t *sites) there(ids []model.NodeID) []model.NodeID {
	return slices.DeleteFunc(slices.Clone(ids), func(id model.NodeID) bool {
		_, there := t.maker.l.View(id)
		return !there
	})
}

// around is the domain of a level that some nodes share, as far as it is in a scope; false
// when they share none.
func (t *sites) around(beside []model.NodeID, level model.Level, in scope) (scope, bool) {
	if level.Depth == model.NodeDepth {
		return scope{string(beside[0]), beside}, len(beside) == 1 && in.has(beside[0])
	}
	domains := t.maker.l.Domains()
	d, ok := domains.Of(beside[0], level.Depth)
	for _, id := range beside {
		o, has := domains.Of(id, level.Depth)
		ok = ok && has && o == d
	}
	return in.part(d.Path, domains.Nodes(d)), ok
}

func (s scope) has(id model.NodeID) bool {
	if s.nodes == nil {
		return true
	}
	_, found := slices.BinarySearch(s.nodes, id)
	return found
}

// part is the nodes of a domain that are in a scope.
func (s scope) part(path string, nodes []model.NodeID) scope {
	if s.nodes != nil && slices.ContainsFunc(nodes, func(id model.NodeID) bool { return !s.has(id) }) {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(id model.NodeID) bool { return !s.has(id) })
	}
	if s.nodes != nil && len(nodes) == len(s.nodes) {
		return s // all of it
	}
	return scope{path, nodes}
}

// alternatives yields the scopes in which a group may be placed inside another scope: the
// domains of its required level, or all of that scope; before them the domains of the
// level that it prefers.
func (t *sites) alternatives(g int, in scope) iter.Seq[scope] {
	group := &t.groups.Tree.Groups[g]
	require, prefer := group.Require, group.Prefer
	prefers := prefer.Name != "" && (require.Name == "" || tighter(prefer, require))
	if beside := t.there(group.Beside); len(beside) > 0 {
		return func(yield func(scope) bool) {
			if s, ok := t.around(beside, prefer, in); prefers && ok && !yield(s) {
				return
			}
			if require.Name == "" {
				yield(in)
			} else if s, ok := t.around(beside, require, in); ok {
				yield(s)
			}
		}
	}
	return func(yield func(scope) bool) {
		if prefers {
			tried := 0
			for s := range t.at(g, prefer, in) {
				if t.has(s, require) && !yield(s) {
					return
				}
				if tried++; tried == maxDomains {
					break
				}
			}
		}
		if require.Name == "" {
			yield(in)
			return
		}
		t.at(g, require, in)(yield)
	}
}

// has says whether a scope inside a domain of one level is also inside one of a level, or
// none is required: a node may lack the label of a level.
func (t *sites) has(s scope, level model.Level) bool {
	if level.Name == "" {
		return true
	}
	_, ok := t.maker.l.Domains().Of(s.nodes[0], level.Depth)
	return ok
}

// tighter says whether the domains of one level are inside those of another.
func tighter(a, b model.Level) bool {
	return b.Depth != model.NodeDepth && (a.Depth == model.NodeDepth || a.Depth > b.Depth)
}

// at yields the domains of a level inside a scope that could take a group, by what is free
// there, the one with the least headroom first. The ledger may change meanwhile if it is as
// before when the next one is asked for.
func (t *sites) at(g int, level model.Level, in scope) iter.Seq[scope] {
	could, enough := t.bounds(g)
	return func(yield func(scope) bool) {
		if level.Depth == model.NodeDepth {
			ids := in.nodes
			if ids == nil {
				ids = t.allNodes()
			}
			for _, id := range ids {
				if own := []model.NodeID{id}; could(own) && !yield(scope{string(id), own}) {
					return
				}
			}
			return
		}
		domains := t.maker.l.Domains()
		for from := 0; ; from += maxDomains {
			// As many as are often enough are listed at a time.
			var list []topology.Domain
			at := 0
			for d := range enough(level.Depth) {
				if at >= from {
					list = append(list, d)
				}
				if at++; len(list) == maxDomains {
					break
				}
			}
			for _, d := range list {
				s := in.part(d.Path, domains.Nodes(d))
				if len(s.nodes) > 0 && could(s.nodes) && !yield(s) {
					return
				}
			}
			if len(list) < maxDomains {
				return
			}
		}
	}
}

// allNodes are the nodes of the fleet, sorted: an attempt changes what they have free, not
// which there are.
func (t *sites) allNodes() []model.NodeID {
	if t.nodes == nil {
		t.nodes = slices.Sorted(t.maker.l.Nodes())
	}
	return t.nodes
}

// outwards yields the scopes in which the goal is tried: tight ones first, as for a plain
// gang, then those that its required level leaves.
func (t *sites) outwards(goal int, in scope) iter.Seq[scope] {
	group := &t.groups.Tree.Groups[goal]
	bound := group.Require.Name != ""
	if t.groups.isLeaf(goal) || len(t.groups.near(goal)) > 0 || bound && group.Require.Depth == model.NodeDepth {
		return t.alternatives(goal, in)
	}
	widest := 0
	if bound {
		widest = group.Require.Depth + 1
	}
	return func(yield func(scope) bool) {
		domains := t.maker.l.Domains()
		if leaves, choice := t.groups.minimum(goal); !choice {
			for s := range t.flat(leaves).singleNodes(maxNodes) {
				if in.has(s.nodes[0]) && t.has(s, group.Require) && !yield(s) {
					return
				}
			}
		}
		for depth := domains.Depths() - 1; depth >= widest; depth-- {
			looked := 0
			for s := range t.at(goal, model.Level{Depth: depth}, in) {
				if looked++; looked > maxDomains {
					break
				}
				if t.has(s, group.Require) && !yield(s) {
					return
				}
			}
		}
		t.alternatives(goal, in)(yield)
	}
}

// inside places the members of a part in a scope, in a tight part of it if they fit there.
func (p *part) inside(s scope) (Plan, bool) {
	for tight := range p.tight(s) {
		if plan, ok := p.fill(tight, nil); ok {
			return plan, true
		}
	}
	if w := p.newWeighing(); w != nil {
		if ways := w.ways(s); ways != nil {
			return w.carryOut(s, ways)
		}
	}
	return Plan{}, false
}

// maxTight is in how large a scope tighter domains are looked for.
const maxTight = 512

// tight yields the domains inside a scope that could take all members, the tightest
// first, and then the scope itself. Single nodes are not among them: fill tries to put all
// members on one.
func (p *part) tight(s scope) iter.Seq[scope] {
	switch {
	case p.members == 1:
		return one(s)
	case s.nodes == nil:
		return p.scopes()
	}
	return func(yield func(scope) bool) {
		domains := p.l.Domains()
		for depth := domains.Depths() - 1; depth >= 0 && len(s.nodes) <= maxTight; depth-- {
			var list []topology.Domain
			nodes := map[topology.Domain][]model.NodeID{}
			for _, id := range s.nodes {
				if d, ok := domains.Of(id, depth); ok {
					if nodes[d] == nil {
						list = append(list, d)
					}
					nodes[d] = append(nodes[d], id)
				}
			}
			if len(list) == 1 && len(nodes[list[0]]) == len(s.nodes) {
				break // it is the scope itself, or inside such a domain
			}
			p.sortNear(list, nodes)
			for _, d := range list {
				if p.could(nodes[d]) && !yield(scope{d.Path, nodes[d]}) {
					return
				}
			}
		}
		yield(s)
	}
}

// sortNear orders domains: those with members that run first, then those with the least
// free.
func (p *part) sortNear(list []topology.Domain, nodes map[topology.Domain][]model.NodeID) {
	resource, _ := p.need()
	key := func(d topology.Domain) (far int, free int64) {
		if !slices.ContainsFunc(nodes[d], func(id model.NodeID) bool { return slices.Contains(p.ask.Beside, id) }) {
			far = 1
		}
		return far, p.l.Domains().Free(d, resource)
	}
	slices.SortFunc(list, func(a, b topology.Domain) int {
		aFar, aFree := key(a)
		bFar, bFree := key(b)
		return cmp.Or(aFar-bFar, cmp.Compare(aFree, bFree), strings.Compare(a.Path, b.Path))
	})
}
