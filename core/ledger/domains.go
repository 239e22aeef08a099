package ledger

import (
	"fmt"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Domains are the domains the nodes are in, and the whole devices free in each: the
// sum of the nodes' View.Room, by Resource. Only to be read, and only until the
// ledger changes; trials and rollbacks keep it up to date.
func (l *Ledger) Domains() *topology.Domains { return l.domains }

// Resource is the index under which Domains counts a vendor's free devices; -1 for an
// unknown vendor.
func Resource(v model.Vendor) int { return v.Index() }

// locate updates the domains of a changed node.
func (l *Ledger) locate(n *node) {
	if n.inv == nil {
		l.domains.Remove(n.id)
		return
	}
	l.domains.Set(n.id, n.inv.Domains)
	v := n.view()
	for i, vendor := range model.Vendors {
		l.domains.SetFree(n.id, i, int64(v.Room(vendor)))
	}
}

// auditDomains recomputes the sums that domains keep incrementally.
func (l *Ledger) auditDomains() error {
	type sum struct {
		nodes int
		free  [model.NumVendors]int64
	}
	want := map[topology.Domain]sum{}
	for id, n := range l.nodes {
		if n.inv == nil {
			continue
		}
		for depth, value := range n.inv.Domains {
			dom, ok := l.domains.Of(id, depth)
			if ok != (value != "") {
				return fmt.Errorf("node %q: in a domain of depth %d %v, its value is %q", id, depth, ok, value)
			}
			if ok {
				s := want[dom]
				s.nodes++
				for i, vendor := range model.Vendors {
					s.free[i] += int64(n.view().Room(vendor))
				}
				want[dom] = s
			}
		}
	}
	found := 0
	for depth := range l.domains.Depths() {
		for _, dom := range l.domains.At(depth) {
			found++
			got := sum{nodes: len(l.domains.Nodes(dom))}
			for i := range got.free {
				got.free[i] = l.domains.Free(dom, i)
			}
			if got != want[dom] {
				return fmt.Errorf("domain %q counts %+v, has %+v", dom.Path, got, want[dom])
			}
		}
	}
	if found != len(want) {
		return fmt.Errorf("%d domains for %d", found, len(want))
	}
	return nil
}
