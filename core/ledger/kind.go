package ledger

import (
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Kind is what interchangeable nodes have in common: everything but their name
// and their devices' UUIDs. Kinds are never changed.
type Kind struct {
	// Links answers which devices belong together.
	Links *topology.Links
	// healthy are the devices new work may use; fixed those sold in slices only.
	healthy, fixed model.Mask
	// vendor has the devices of each vendor.
	vendor [numVendors]model.Mask
	// cuts says how each device can be cut; nil where it cannot.
	cuts []*mig.Geometry
	// sellable is how many devices of each vendor may be in use at once.
	sellable [numVendors]int
	// signature is the text two nodes must share to be of one kind.
	signature string
	// nodes counts the nodes of this kind, so that unused kinds are dropped.
	nodes int
}

// newKind computes the tables of a kind from one of its nodes.
func newKind(n *model.Node, signature string) *Kind {
	k := &Kind{Links: topology.New(n), signature: signature, cuts: make([]*mig.Geometry, len(n.Devices))}
	for slot, d := range n.Devices {
		if len(d.MIG) > 0 {
			k.cuts[slot], _ = mig.New(d.MIGSlices, d.MIG) // SetNode has checked it
		}
		if v := vendorIndex(d.Vendor); v >= 0 {
			k.vendor[v] = k.vendor[v].With(slot)
		}
		if d.Health == model.Healthy {
			k.healthy = k.healthy.With(slot)
		}
		if d.Fixed {
			k.fixed = k.fixed.With(slot)
		}
	}
	for i, v := range model.Vendors {
		k.sellable[i] = n.Sellable[v]
	}
	return k
}

// signature spells out all that makes nodes of one kind.
func signature(n *model.Node) string {
	var b strings.Builder
	for _, d := range n.Devices {
		fmt.Fprintf(&b, "d%d %s %s %d %d %d %d %d %v %v;", d.Index, d.Vendor, d.Model, d.Memory, d.NUMA, d.Health, d.Tenants, d.MIGSlices, d.MIG, d.Fixed)
	}
	for _, l := range n.Links {
		fmt.Fprintf(&b, "l%v %d %d;", l.Between, l.Class, l.Count)
	}
	for _, a := range n.Attributes {
		fmt.Fprintf(&b, "a%q=%q;", a.Key, a.Value)
	}
	for _, v := range model.Vendors {
		fmt.Fprintf(&b, "s%d;", n.Sellable[v])
	}
	return b.String()
}
