package ledger

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Standing decides which of two claims keeps a device that both name. Every user who may
// edit a pod may edit its record, so nothing that a claim says about itself counts, not
// even its age: the claim that was in this ledger first keeps the device. Put sets it;
// code that rebuilds a ledger copies it from the old one.
type Standing struct {
	// Order is the number of the Put that brought the claim; a smaller one goes first.
	// 0: not in a ledger yet, behind all others.
	Order uint64
	// Own: the claim began as an assumed one. So this process itself gave the devices to
	// the holder, and knows better than any record.
	Own bool
	// Moved are devices that the claim did not name in the beginning. The record was
	// changed, so each counts from when it was first named, and none is Own. Sorted by Order.
	Moved []Moved
}

// Moved is a place that a claim named later than the others.
type Moved struct {
	Place
	Order uint64
}

// Place is a device, or of a slice also where it begins there. Known by index and UUID
// together: one of both may be kept while the other points elsewhere.
type Place struct {
	Device DeviceRef
	Start  int
}

// places are what a claim names.
func (c *Claim) places() []Place {
	var out []Place
	for _, ref := range c.Devices {
		out = append(out, Place{Device: ref})
	}
	for _, p := range c.Parts {
		if p.Known {
			out = append(out, p.place())
		}
	}
	return out
}

func (p *HeldPart) place() Place { return Place{p.Device, p.Start} }

// order is since when a claim names a place.
func (s *Standing) order(p Place) uint64 {
	for i := range s.Moved {
		if s.Moved[i].Place == p {
			return s.Moved[i].Order
		}
	}
	return s.Order
}

// owns says whether this process gave the place to the holder.
func (s *Standing) owns(p Place) bool { return s.Own && s.order(p) == s.Order }

// standing is that of a claim, by the number of its Put, that replaces another of the same
// holder on the same node, or none. What is assumed is this process's own new decision.
func standing(now uint64, c, old *Claim) Standing {
	if old == nil || c.Assumed {
		return Standing{Order: now, Own: c.Assumed}
	}
	s := Standing{Order: old.Order, Own: old.Own}
	before := old.places()
	for _, p := range c.places() {
		order := now
		if slices.Contains(before, p) {
			order = old.order(p)
		}
		if order != s.Order && !slices.ContainsFunc(s.Moved, func(m Moved) bool { return m.Place == p }) {
			s.Moved = append(s.Moved, Moved{p, order})
		}
	}
	slices.SortStableFunc(s.Moved, func(a, b Moved) int { return cmp.Compare(a.Order, b.Order) })
	return s
}

// bid is a claim, by position, and the part of what it names that has one order.
type bid struct {
	claim   int
	order   uint64
	assumed bool
}

// bids are the claims in the order in which they get what they name: what pods hold
// before what is promised to one that is not bound yet and can be planned anew; then by
// order. A claim with moved devices comes several times. While no two name one device the
// order changes nothing.
func bids(claims []Claim) []bid {
	out := make([]bid, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		out = append(out, bid{i, c.Order, c.Assumed})
		for j, m := range c.Moved {
			if j == 0 || m.Order != c.Moved[j-1].Order {
				out = append(out, bid{i, m.Order, c.Assumed})
			}
		}
	}
	slices.SortFunc(out, func(a, b bid) int {
		// Order 0 is behind all others: subtracting 1 makes it the largest number.
		return cmp.Or(falseFirst(a.assumed, b.assumed), cmp.Compare(a.order-1, b.order-1), cmp.Compare(a.claim, b.claim))
	})
	return out
}

// Contested is a claim that is counted on another device than its record names, because
// claims with precedence leave no room there.
type Contested struct {
	Holder model.HolderID
	// Index is the first such device.
	Index int
	// Certain: this process itself gave the device to its present holders. Otherwise both
	// sides are known from their records only, and one of these may be forged.
	Certain bool
}

// Contested returns the claims on a node whose records are overruled, those with the
// highest precedence first. Assumed claims are not among them: they have no record yet.
func (l *Ledger) Contested(id model.NodeID) []Contested {
	n := l.nodes[id]
	if n == nil {
		return nil
	}
	var out []Contested
	for _, c := range n.contested {
		if claim := &n.claims[c.claim]; !claim.Assumed {
			out = append(out, Contested{claim.Holder, c.index, n.given(c)})
		}
	}
	return out
}

// given says whether this process gave a contested device to all its present holders.
func (n *node) given(c contest) bool {
	some := false
	for j := range n.claims {
		o := &n.claims[j]
		if j == c.claim || !n.byClaim[j].Has(c.slot) {
			continue
		}
		for _, p := range o.places() {
			if n.inv.Slot(p.Device.Index, p.Device.UUID) != c.slot {
				continue
			}
			if o.Assumed || !o.owns(p) {
				return false
			}
			some = true
		}
	}
	return some
}
