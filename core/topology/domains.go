package topology

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Domain is a group of nodes that are close in the network.
type Domain struct {
	// Depth is its level, 0 for the outermost.
	Depth int
	// Path are the values of the levels down to this one, joined by "/": rack 7 of
	// one zone is not rack 7 of another.
	Path string
}

func (d Domain) compare(o Domain) int {
	return cmp.Or(cmp.Compare(d.Depth, o.Depth), strings.Compare(d.Path, o.Path))
}

// Domains records which nodes are in which domain and how much is free there, to find the
// tightest domain with room. A change costs a binary search per level, a query never visits
// nodes. A node without a value at some level is in no domain of that level. The caller
// defines what the amounts count. Not safe for concurrent use.
type Domains struct {
	resources int
	nodes     map[model.NodeID]*member
	domains   map[Domain]*domain
	levels    []level
}

// member is a node: its domains, outermost first (nil where it has none), and what
// is free on it.
type member struct {
	path []string
	in   []*domain
	free []int64
}

type domain struct {
	Domain
	nodes []model.NodeID // sorted
	free  []int64        // by resource, the sum over nodes
}

// level lists the domains of one depth.
type level struct {
	all []Domain // sorted
	// byFree[resource] is sorted by amount free, then path.
	byFree [][]*domain
}

// NewDomains returns an empty tree that counts so many resources.
func NewDomains(resources int) *Domains {
	return &Domains{resources: resources, nodes: map[model.NodeID]*member{}, domains: map[Domain]*domain{}}
}

// Set puts a node into the domains of its path: one value per level, outermost first,
// "" where the node has none. What is free on it moves with it; on a new node that is
// nothing. The path is kept: the caller must not change it.
func (d *Domains) Set(id model.NodeID, path []string) {
	m := d.nodes[id]
	if m == nil {
		m = &member{free: make([]int64, d.resources)}
		d.nodes[id] = m
	} else if slices.Equal(m.path, path) {
		return
	}
	d.leave(id, m)
	m.path, m.in = path, make([]*domain, len(path))
	for depth, value := range path {
		if value != "" {
			m.in[depth] = d.enter(id, m, Domain{depth, spellPath(path[:depth+1])})
		}
	}
}

// Remove takes a node away, and what was free on it.
func (d *Domains) Remove(id model.NodeID) {
	if m := d.nodes[id]; m != nil {
		d.leave(id, m)
		delete(d.nodes, id)
	}
}

// SetFree says how much of a resource is free on a node that is there.
func (d *Domains) SetFree(id model.NodeID, resource int, amount int64) {
	m := d.nodes[id]
	if m == nil || m.free[resource] == amount {
		return
	}
	more := amount - m.free[resource]
	m.free[resource] = amount
	for _, dom := range m.in {
		if dom != nil {
			d.grow(dom, resource, more)
		}
	}
}

// Of returns a node's domain at a depth; false when it has none.
func (d *Domains) Of(id model.NodeID, depth int) (Domain, bool) {
	m := d.nodes[id]
	if m == nil || depth < 0 || depth >= len(m.in) || m.in[depth] == nil {
		return Domain{}, false
	}
	return m.in[depth].Domain, true
}

// Nodes returns the nodes of a domain, sorted; not to be changed, and valid until
// the next Set or Remove.
func (d *Domains) Nodes(of Domain) []model.NodeID {
	if dom := d.domains[of]; dom != nil {
		return dom.nodes
	}
	return nil
}

// At returns the domains of a depth, sorted; not to be changed, and valid until the
// next Set or Remove.
func (d *Domains) At(depth int) []Domain {
	if depth < 0 || depth >= len(d.levels) {
		return nil
	}
	return d.levels[depth].all
}

// Depths is the number of levels that any node has had a value for.
func (d *Domains) Depths() int { return len(d.levels) }

// Free is how much of a resource is free in a domain; 0 in one that does not exist.
func (d *Domains) Free(of Domain, resource int) int64 {
	if dom := d.domains[of]; dom != nil {
		return dom.free[resource]
	}
	return 0
}

// Common returns the tightest domain that holds all of the nodes; false when none
// does, and for no nodes.
func (d *Domains) Common(ids ...model.NodeID) (Domain, bool) {
	if len(ids) == 0 {
		return Domain{}, false
	}
	first := d.nodes[ids[0]]
	if first == nil {
		return Domain{}, false
	}
	for depth := len(first.in) - 1; depth >= 0; depth-- {
		dom := first.in[depth]
		if dom == nil {
			continue
		}
		holds := true
		for _, id := range ids[1:] {
			m := d.nodes[id]
			holds = holds && m != nil && depth < len(m.in) && m.in[depth] == dom
		}
		if holds {
			return dom.Domain, true
		}
	}
	return Domain{}, false
}

// Enough yields the domains of a depth with at least need of a resource free, the one
// with the least headroom first, so that large gaps stay available to large gangs;
// among equals by path. It costs a binary search and the domains taken. The tree must
// not change meanwhile: collect first, then try.
func (d *Domains) Enough(depth, resource int, need int64) iter.Seq[Domain] {
	return func(yield func(Domain) bool) {
		if depth < 0 || depth >= len(d.levels) {
			return
		}
		list := d.levels[depth].byFree[resource]
		at, _ := slices.BinarySearchFunc(list, need, func(dom *domain, need int64) int {
			if dom.free[resource] < need {
				return -1
			}
			return 1
		})
		for _, dom := range list[at:] {
			if !yield(dom.Domain) {
				return
			}
		}
	}
}

// enter puts a node into a domain, making it if needed.
func (d *Domains) enter(id model.NodeID, m *member, key Domain) *domain {
	for len(d.levels) <= key.Depth {
		d.levels = append(d.levels, level{byFree: make([][]*domain, d.resources)})
	}
	l := &d.levels[key.Depth]
	dom := d.domains[key]
	if dom == nil {
		dom = &domain{Domain: key, free: make([]int64, d.resources)}
		d.domains[key] = dom
		at, _ := slices.BinarySearchFunc(l.all, key, Domain.compare)
		l.all = slices.Insert(l.all, at, key)
		for r := range d.resources {
			l.insert(dom, r)
		}
	}
	at, _ := slices.BinarySearch(dom.nodes, id)
	dom.nodes = slices.Insert(dom.nodes, at, id)
	for r, amount := range m.free {
		d.grow(dom, r, amount)
	}
	return dom
}

// leave takes a node out of all its domains, and drops those it was the last of.
func (d *Domains) leave(id model.NodeID, m *member) {
	for _, dom := range m.in {
		if dom == nil {
			continue
		}
		for r, amount := range m.free {
			d.grow(dom, r, -amount)
		}
		at, _ := slices.BinarySearch(dom.nodes, id)
		if dom.nodes = slices.Delete(dom.nodes, at, at+1); len(dom.nodes) > 0 {
			continue
		}
		l := &d.levels[dom.Depth]
		for r := range d.resources {
			l.remove(dom, r)
		}
		at, _ = slices.BinarySearchFunc(l.all, dom.Domain, Domain.compare)
		l.all = slices.Delete(l.all, at, at+1)
		delete(d.domains, dom.Domain)
	}
	m.in = nil
}

// grow changes what is free in a domain and keeps it in order.
func (d *Domains) grow(dom *domain, resource int, more int64) {
	if more == 0 {
		return
	}
	l := &d.levels[dom.Depth]
	l.remove(dom, resource)
	dom.free[resource] += more
	l.insert(dom, resource)
}

func byFree(resource int) func(a, b *domain) int {
	return func(a, b *domain) int {
		return cmp.Or(cmp.Compare(a.free[resource], b.free[resource]), strings.Compare(a.Path, b.Path))
	}
}

func (l *level) insert(dom *domain, resource int) {
	at, _ := slices.BinarySearchFunc(l.byFree[resource], dom, byFree(resource))
	l.byFree[resource] = slices.Insert(l.byFree[resource], at, dom)
}

func (l *level) remove(dom *domain, resource int) {
	at, _ := slices.BinarySearchFunc(l.byFree[resource], dom, byFree(resource))
	l.byFree[resource] = slices.Delete(l.byFree[resource], at, at+1)
}

// spellPath joins values so that different paths stay different. Label values hold no
// slash, so normally nothing is escaped.
func spellPath(values []string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(v, "~", "~0"), "/", "~1"))
	}
	return b.String()
}
