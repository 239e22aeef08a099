package gang

import (
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// bounds are necessary conditions for a group to be placed, by counting: on nodes, and in
// the domains of a depth. Where the group has a choice which of its children to start, only
// the devices that it takes at least are counted.
func (t *sites) bounds(g int) (could func([]model.NodeID) bool, enough func(depth int) iter.Seq[topology.Domain]) {
	if t.groups.isLeaf(g) {
		p := t.leaf(g)
		return p.could, p.enough()
	}
	leaves, choice := t.groups.minimum(g)
	if !choice {
		p := t.flat(leaves)
		return p.could, p.enough()
	}
	resource, most := 0, int64(0)
	for _, v := range model.Vendors {
		if n := t.groups.devices(g, v); n > most {
			resource, most = v.Index(), n
		}
	}
	could = func(nodes []model.NodeID) bool { return t.free(scope{nodes: nodes}, model.Vendors[resource]) >= most }
	return could, func(depth int) iter.Seq[topology.Domain] { return t.maker.l.Domains().Enough(depth, resource, most) }
}

// roomy counts whether a scope has as many free devices as a group takes at least.
func (t *sites) roomy(g int, s scope) bool {
	for _, v := range model.Vendors {
		if need := t.groups.devices(g, v); need > 0 && need > t.free(s, v) {
			return false
		}
	}
	return true
}

// free is how many devices of a vendor are free in a scope.
func (t *sites) free(s scope, vendor model.Vendor) (sum int64) {
	l := t.maker.l
	if s.nodes == nil {
		for b := range l.Buckets() { // sums do not depend on the order
			if v, ok := b.View(nil); ok {
				sum += int64(v.Room(vendor)) * int64(b.Len())
			}
		}
		return sum
	}
	for _, id := range s.nodes {
		if v, there := l.View(id); there {
			sum += int64(v.Room(vendor))
		}
	}
	return sum
}

// crowded proves by counting that the leaves that the goal needs cannot all be placed: of
// leaves whose members ask for the same, in one domain of a level each, there are more of
// some size than the domains of that level could take if they took only leaves of that size.
func (t *sites) crowded(goal int, in scope) bool {
	leaves, choice := t.groups.minimum(goal)
	if choice {
		return false
	}
	type kind struct {
		shape string
		depth int
	}
	sizes := map[kind][]int{}
	first := map[kind]int{}
	var kinds []kind
	for _, g := range leaves {
		require := t.groups.Tree.Groups[g].Require
		if require.Name == "" || require.Depth == model.NodeDepth || len(t.groups.roles[g]) != 1 || len(t.groups.Tree.Groups[g].Beside) > 0 {
			continue
		}
		r := &t.groups.Roles[t.groups.roles[g][0]]
		k := kind{r.Shape, require.Depth}
		if r.Shape == "" || r.Request.Kind() != model.Whole || r.Request.Count() == 0 {
			continue
		}
		if sizes[k] == nil {
			kinds, first[k] = append(kinds, k), g
		}
		sizes[k] = append(sizes[k], t.groups.leastOf(g))
	}
	for _, k := range kinds {
		list := sizes[k]
		slices.Sort(list)
		room := t.rooms(first[k], k.depth, in)
		for i, size := range list {
			if i > 0 && list[i-1] == size {
				continue
			}
			takes := 0
			for _, n := range room {
				takes += n / max(1, size)
			}
			if takes < len(list)-i { // all from here on are as large, or larger
				return true
			}
		}
	}
	return false
}

// rooms is how many members of a leaf each domain of a depth could take, counted per node.
func (t *sites) rooms(leaf, depth int, in scope) []int {
	p := t.leaf(leaf)
	size := p.ask.Roles[0].Request.Count()
	domains := t.maker.l.Domains()
	var out []int
	for _, d := range domains.At(depth) {
		n := 0
		for _, id := range domains.Nodes(d) {
			if v, there := t.maker.l.View(id); there && in.has(id) {
				n += p.allowed(0, &v) / size
			}
		}
		out = append(out, n)
	}
	return out
}
