package gang

import (
	"iter"
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// maxNodes bounds how many single nodes are tried for a gang that may also use several;
// maxDomains bounds how many domains of each level are tried for one that may use the
// whole cluster. A gang with a required level is tried in all domains of that level.
const (
	maxNodes   = 8
	maxDomains = 64
)

// nearby yields the domains that the running members share, the tightest first.
func (m *maker) nearby(beside []model.NodeID, bound bool) iter.Seq[scope] {
	return func(yield func(scope) bool) {
		require := m.ask.Require
		if require.Name != "" && require.Depth == model.NodeDepth {
			if len(beside) == 1 {
				yield(scope{string(beside[0]), beside})
			}
			return
		}
		widest := 0
		if bound {
			widest = require.Depth
		}
		domains := m.l.Domains()
		if common, ok := domains.Common(beside...); ok {
			for depth := common.Depth; depth >= widest; depth-- {
				if d, ok := domains.Of(beside[0], depth); ok && !yield(scope{d.Path, domains.Nodes(d)}) {
					return
				}
			}
		}
		if !bound {
			yield(scope{})
		}
	}
}

// partsOf yields the parts of some nodes that share a domain of the required level, in the
// order of their first nodes; of a gang that runs only the part where its members are.
func (m *maker) partsOf(nodes []model.NodeID) iter.Seq[scope] {
	domainOf := func(id model.NodeID) (string, bool) {
		if m.ask.Require.Depth == model.NodeDepth {
			return string(id), true
		}
		d, ok := m.l.Domains().Of(id, m.ask.Require.Depth)
		return d.Path, ok
	}
	var paths []string
	parts := map[string][]model.NodeID{}
	for _, id := range nodes {
		if path, ok := domainOf(id); ok {
			if parts[path] == nil {
				paths = append(paths, path)
			}
			parts[path] = append(parts[path], id)
		}
	}
	beside := m.beside()
	return func(yield func(scope) bool) {
		for _, path := range paths {
			elsewhere := func(id model.NodeID) bool { own, ok := domainOf(id); return !ok || own != path }
			if !slices.ContainsFunc(beside, elsewhere) && m.could(parts[path]) && !yield(scope{path, parts[path]}) {
				return
			}
		}
	}
}

// outwards yields single nodes, then domains from the tightest, then the whole cluster.
func (m *maker) outwards(bound bool) iter.Seq[scope] {
	return func(yield func(scope) bool) {
		domains := m.l.Domains()
		widest := 0
		if bound {
			widest = m.ask.Require.Depth
		}
		for s := range m.singleNodes(maxNodes) {
			if bound {
				if _, ok := domains.Of(s.nodes[0], widest); !ok {
					continue
				}
			}
			if !yield(s) {
				return
			}
		}
		enough := m.enough()
		for depth := domains.Depths() - 1; depth >= widest; depth-- {
			looked := 0
			// Collected first: an attempt changes the domains' free devices, and must not
			// while they are iterated.
			var list []topology.Domain
			for d := range enough(depth) {
				if looked++; looked > maxDomains && !bound {
					break
				}
				list = append(list, d)
			}
			for _, d := range list {
				if nodes := domains.Nodes(d); m.could(nodes) && !yield(scope{d.Path, nodes}) {
					return
				}
			}
		}
		if !bound {
			yield(scope{})
		}
	}
}

// need is a lower bound of the whole devices the gang takes, of the vendor it needs
// most of, and the index under which domains count that vendor's devices. Shares are
// not counted: how many of them fit on one device is not known here.
func (m *maker) need() (resource int, devices int64) {
	by := map[model.Vendor]int64{}
	left, smallest := m.goal, int64(math.MaxInt64)
	var most model.Vendor
	for i, r := range m.ask.Roles {
		n, size := m.wanted(i), int64(0)
		if r.Request.Kind() == model.Whole && r.Request.Vendor != "" {
			size = int64(r.Request.Count())
			by[r.Request.Vendor] += int64(n) * size
			if by[r.Request.Vendor] > by[most] {
				most = r.Request.Vendor
			}
		}
		left -= n
		if len(r.Members) > n {
			smallest = min(smallest, size)
		}
	}
	if len(by) == 1 && left > 0 && smallest < math.MaxInt64 {
		by[most] += int64(left) * smallest
	}
	return max(0, most.Index()), by[most]
}

// could says whether the free devices of these nodes, counted per node, can be enough:
// a cheap necessary condition, checked before an attempt.
func (m *maker) could(nodes []model.NodeID) bool {
	total := 0
	for i, r := range m.ask.Roles {
		n := len(r.Members)
		if size := r.Request.Count(); r.Request.Kind() == model.Whole && r.Request.Vendor != "" && size > 0 {
			n = 0
			for _, id := range nodes {
				if v, there := m.l.View(id); there {
					if n += m.allowed(i, &v) / size; n >= len(r.Members) {
						break
					}
				}
			}
			if n < m.wanted(i) {
				return false
			}
		}
		total += min(n, len(r.Members))
	}
	return total >= m.goal
}

// singleNodes yields nodes that may take the whole gang, best first, at most limit.
func (m *maker) singleNodes(limit int) iter.Seq[scope] {
	return func(yield func(scope) bool) {
		if len(m.order) == 0 {
			return
		}
		// Only the minimum of the largest role is known to go together. Of shares only
		// one is asked for, because several may fit on one device.
		first := m.order[0]
		r, count := m.ask.Roles[first].Request, m.wanted(first)
		if r.Kind() != model.Whole {
			count = min(count, 1)
		}
		if r.Count()*count > model.MaxDevices {
			return
		}
		var nodes []model.NodeID
		if count == 0 {
			// No member of the largest role is required, so its request does not restrict
			// the nodes.
			nodes = slices.Sorted(m.l.Nodes())
		} else {
			for c := range m.p.Candidates(Together(r, count), m.ask.Weights) {
				if !m.may(first, c.Node) {
					continue
				}
				if nodes = append(nodes, c.Node); len(nodes) == limit {
					break
				}
			}
		}
		for i, id := range nodes {
			if i == limit {
				return
			}
			own := []model.NodeID{id}
			if m.could(own) && !yield(scope{string(id), own}) {
				return
			}
		}
	}
}
