package ledger

import (
	"fmt"
	"iter"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Kind is what interchangeable nodes have in common: everything but their name
// and their devices' UUIDs. Kinds are never changed.
type Kind struct {
	// Links answers which devices belong together.
	Links *topology.Links
	// usable are the devices new work may use: healthy and not cordoned. cordoned are
	// those that would be healthy; fixed those sold in slices only.
	usable, cordoned, fixed model.Mask
	// replicated are the devices that are sold several times over as whole ones.
	replicated model.Mask
	// vendor has the devices of each vendor.
	vendor [model.NumVendors]model.Mask
	// cuts says how each device can be cut; nil where it cannot.
	cuts []*mig.Geometry
	// sellable is how many devices of each vendor may be in use at once.
	sellable [model.NumVendors]int
	// key is what nodes of the kind share: model.Node.KindKey.
	key string
	// sample is one node of the kind.
	sample *model.Node
	// nodes counts the nodes of this kind, so that unused kinds are dropped.
	nodes int
}

// kinds are those that nodes have now.
type kinds struct {
	byKey map[string]*Kind
	// version counts changes of which kinds there are.
	version uint64
}

// intern is the kind of one more node.
func (x *kinds) intern(inv *model.Node) *Kind {
	key := inv.KindKey()
	k := x.byKey[key]
	if k == nil {
		k = newKind(inv, key)
		x.byKey[key] = k
		x.version++
	}
	k.nodes++
	return k
}

// release says that a node of the kind is no longer there.
func (x *kinds) release(k *Kind) {
	if k.nodes--; k.nodes == 0 {
		delete(x.byKey, k.key)
		x.version++
	}
}

func (x *kinds) audit(nodes []*node) error {
	counts := map[*Kind]int{}
	for _, n := range nodes {
		if counts[n.kind]++; n.kind != x.byKey[n.inv.KindKey()] {
			return fmt.Errorf("node %q: not of its kind", n.id)
		}
	}
	for _, k := range x.byKey {
		if k.nodes != counts[k] || k.nodes == 0 {
			return fmt.Errorf("a kind counts %d nodes, has %d", k.nodes, counts[k])
		}
	}
	return nil
}

// Kinds yields one node of each kind, as it is without holders, in no particular order.
func (l *Ledger) Kinds() iter.Seq[View] {
	return func(yield func(View) bool) {
		for _, k := range l.kinds.byKey {
			o := occupy(k.sample, k, nil)
			v := viewOf(k.sample, k, &o, model.Host{})
			if v.labels = &l.labels; !yield(v) {
				return
			}
		}
	}
}

// KindsVersion is equal as long as the kinds are.
func (l *Ledger) KindsVersion() uint64 { return l.kinds.version }

// newKind computes the tables of a kind from one of its nodes.
func newKind(n *model.Node, key string) *Kind {
	k := &Kind{Links: topology.New(n), key: key, sample: n, cuts: make([]*mig.Geometry, len(n.Devices))}
	for slot, d := range n.Devices {
		if len(d.MIG) > 0 {
			k.cuts[slot], _ = mig.New(d.MIGSlices, d.MIG) // SetNode has checked it
		}
		if v := d.Vendor.Index(); v >= 0 {
			k.vendor[v] = k.vendor[v].With(slot)
		}
		switch {
		case d.Health != model.Healthy:
		case d.Cordoned:
			k.cordoned = k.cordoned.With(slot)
		default:
			k.usable = k.usable.With(slot)
		}
		if d.Fixed {
			k.fixed = k.fixed.With(slot)
		}
		if d.Replicated && !d.Fixed {
			k.replicated = k.replicated.With(slot)
		}
	}
	for i, v := range model.Vendors {
		k.sellable[i] = n.Sellable[v]
	}
	return k
}
