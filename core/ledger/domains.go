package ledger

import (
	"fmt"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Domains are the domains the nodes are in, and the whole devices free in each: the
// sum of the nodes' View.Room, by model.Vendor.Index. Only to be read, and only until the
// ledger changes; trials and rollbacks keep it up to date.
func (l *Ledger) Domains() *topology.Domains { return l.domains }

// locate updates the domains of a changed node.
func locate(domains *topology.Domains, n *node) {
	if n.inv == nil {
		domains.Remove(n.id)
		return
	}
	domains.Set(n.id, n.inv.Domains)
	v := n.view()
	for i, vendor := range model.Vendors {
		domains.SetFree(n.id, i, int64(v.Room(vendor)))
	}
}

// auditDomains recomputes the sums that domains keep incrementally.
func auditDomains(domains *topology.Domains, nodes []*node) error {
	type sum struct {
		nodes int
		free  [model.NumVendors]int64
	}
	want := map[topology.Domain]sum{}
	for _, n := range nodes {
		for depth, value := range n.inv.Domains {
			dom, ok := domains.Of(n.id, depth)
			if ok != (value != "") {
				return fmt.Errorf("node %q: in a domain of depth %d %v, its value is %q", n.id, depth, ok, value)
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
	for depth := range domains.Depths() {
		for _, dom := range domains.At(depth) {
			found++
			got := sum{nodes: len(domains.Nodes(dom))}
			for i := range got.free {
				got.free[i] = domains.Free(dom, i)
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
