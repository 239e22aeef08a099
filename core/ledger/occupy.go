package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// occupancy is what the claims on a node amount to.
type occupancy struct {
	// held are the devices in use, whole or in part; shared those in use in part.
	held, shared model.Mask
	// usage of each device; nil while none is shared.
	usage []Usage
	// byClaim has one mask per claim: the devices of which it holds all or a part.
	byClaim []model.Mask
	// room is how many more whole devices of each vendor may be sold.
	room [model.NumVendors]int16
	// debt is how many claimed devices and parts could not be assigned to a device,
	// because devices vanished or other claims have them. While there is debt, freed
	// devices pay it first.
	debt [model.NumVendors]int16
	// contested are the claims whose record names a device on which claims with
	// precedence leave no room. Each once.
	contested []contest
}

// contest is a claim, by position, and the first device it did not get: its index and
// slot.
type contest struct{ claim, index, slot int }

// contest records that a claim did not get a device.
func (o *occupancy) contest(claim, index, slot int) {
	if !slices.ContainsFunc(o.contested, func(c contest) bool { return c.claim == claim }) {
		o.contested = append(o.contested, contest{claim, index, slot})
	}
}

// occupy computes the occupancy of a node from its claims, which must be sorted by
// Claim.compare. Three rounds: recorded devices go to the claim that named them first; then
// claims without a valid record get the lowest devices they fit on; what remains is
// debt.
func occupy(n *model.Node, kind *Kind, claims []Claim) occupancy {
	o := occupancy{byClaim: make([]model.Mask, len(claims))}
	var lost [][]HeldPart // parts of each claim whose record did not hold
	for _, b := range bids(claims) {
		i, c := b.claim, &claims[b.claim]
		vendor := c.Vendor.Index()
		if vendor < 0 {
			continue
		}
		for _, ref := range c.Devices {
			if c.order(Place{Device: ref}) != b.order {
				continue // another bid's
			}
			slot := n.Slot(ref.Index, ref.UUID)
			if slot < 0 || !(kind.vendor[vendor] &^ kind.fixed).Has(slot) || o.byClaim[i].Has(slot) || o.byClaim[i].Count() == c.Count {
				continue
			}
			if !o.tryWhole(n, kind, vendor, slot) {
				o.contest(i, ref.Index, slot)
				continue
			}
			o.byClaim[i] = o.byClaim[i].With(slot)
		}
		for _, p := range c.Parts {
			if at := p.place(); p.Known && c.order(at) != b.order || !p.Known && b.order != c.Order {
				continue
			}
			if slot := n.Slot(p.Device.Index, p.Device.UUID); p.Known && slot >= 0 {
				if o.tryPart(n, kind, vendor, slot, p) {
					o.byClaim[i] = o.byClaim[i].With(slot)
					continue
				}
				if kind.vendor[vendor].Has(slot) && o.held.Has(slot) {
					o.contest(i, p.Device.Index, slot)
				}
			}
			if lost == nil {
				lost = make([][]HeldPart, len(claims))
			}
			lost[i] = append(lost[i], p)
		}
	}
	var used [model.NumVendors]int
	for i := range claims {
		c := &claims[i]
		vendor := c.Vendor.Index()
		if vendor < 0 {
			continue
		}
		used[vendor] += c.Count
		if c.Count > 0 {
			missing := c.Count - o.byClaim[i].Count()
			presumed := (kind.vendor[vendor] &^ kind.fixed &^ kind.replicated &^ o.held).Lowest(missing)
			o.held |= presumed
			o.byClaim[i] |= presumed
			missing -= presumed.Count()
			missing -= o.presumeTurns(n, kind, vendor, i, missing)
			o.debt[vendor] += int16(missing)
		}
		if lost != nil {
			o.presume(n, kind, vendor, i, lost[i])
		}
	}
	if o.shared == 0 {
		o.usage = nil // no part fitted: equal states must have equal usage
	}
	for v := range model.NumVendors {
		o.room[v] = int16(max(0, kind.sellable[v]-used[v]))
	}
	return o
}

// tryWhole gives a device to a claim for whole ones: alone, or a turn if the device is
// replicated. It returns false when the device is taken.
func (o *occupancy) tryWhole(n *model.Node, kind *Kind, vendor, slot int) bool {
	if kind.replicated.Has(slot) {
		return o.tryPart(n, kind, vendor, slot, HeldPart{Part: model.Part{Kind: model.Share, Turn: true}})
	}
	if o.held.Has(slot) {
		return false
	}
	o.held = o.held.With(slot)
	return true
}

// presumeTurns gives a claim that many turns on replicated devices, always the device
// with the fewest tenants, as NVIDIA's device plugin does: other devices than it has
// first, then the same ones again. It returns how many turns there were.
func (o *occupancy) presumeTurns(n *model.Node, kind *Kind, vendor, claim, missing int) int {
	for given := range missing {
		best, bestRank := -1, 0
		for slot := range (kind.vendor[vendor] & kind.replicated).Slots() {
			tenants := 0
			if o.usage != nil {
				tenants = o.usage[slot].Tenants
			}
			if tenants >= n.Devices[slot].Tenants {
				continue
			}
			rank := tenants
			if o.byClaim[claim].Has(slot) {
				rank += model.MaxDevices
			}
			if best < 0 || rank < bestRank {
				best, bestRank = slot, rank
			}
		}
		if best < 0 || !o.tryWhole(n, kind, vendor, best) {
			return given
		}
		o.byClaim[claim] = o.byClaim[claim].With(best)
	}
	return max(0, missing)
}

// presume lays parts on the first devices they fit on.
func (o *occupancy) presume(n *model.Node, kind *Kind, vendor, claim int, parts []HeldPart) {
	for _, p := range parts {
		p.Known = false
		placed := false
		for slot := range kind.vendor[vendor].Slots() {
			if o.tryPart(n, kind, vendor, slot, p) {
				o.byClaim[claim] = o.byClaim[claim].With(slot)
				placed = true
				break
			}
		}
		if !placed {
			o.debt[vendor]++
		}
	}
}

// tryPart lays a part on a device if it fits there.
func (o *occupancy) tryPart(n *model.Node, kind *Kind, vendor, slot int, p HeldPart) bool {
	if !kind.vendor[vendor].Has(slot) || o.held.Has(slot) && !o.shared.Has(slot) {
		return false
	}
	if o.usage == nil {
		o.usage = make([]Usage, len(n.Devices))
	}
	u, d, g := &o.usage[slot], &n.Devices[slot], kind.cuts[slot]
	start, ok := u.fits(d, g, p.Part)
	if ok && p.Known && p.Kind == model.Slice {
		start, ok = p.Start, u.fitsAt(d, g, p.Part, p.Start)
	}
	if !ok {
		return false
	}
	u.add(d, g, p.Part, start)
	o.held, o.shared = o.held.With(slot), o.shared.With(slot)
	return true
}
