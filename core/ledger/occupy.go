package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// numVendors is the size of arrays indexed by vendor.
const numVendors = 3

// vendorIndex is the vendor's place in such arrays, or -1.
func vendorIndex(v model.Vendor) int { return slices.Index(model.Vendors, v) }

// occupancy is what the claims on a node amount to.
type occupancy struct {
	// held are the devices in somebody's hands.
	held model.Mask
	// of has one mask per claim: the devices that claim holds.
	of []model.Mask
	// room is how many more devices of each vendor may be sold.
	room [numVendors]int16
	// debt is how many claimed devices no device could be found for, because
	// devices vanished or others claim the same ones. While there is debt, freed
	// devices pay it first.
	debt [numVendors]int16
}

// occupy computes the occupancy of a node from its claims, which must be sorted
// by Claim.compare. Three rounds: recorded devices to the claim with the older
// right; then the lowest devices left to what was claimed without (valid)
// record; what remains is debt.
func occupy(n *model.Node, kind *Kind, claims []Claim) occupancy {
	o := occupancy{of: make([]model.Mask, len(claims))}
	for i := range claims {
		c := &claims[i]
		vendor := vendorIndex(c.Vendor)
		if vendor < 0 {
			continue
		}
		for _, ref := range c.Devices {
			slot := n.Slot(ref.Index, ref.UUID)
			if slot >= 0 && kind.vendor[vendor].Has(slot) && !o.held.Has(slot) && o.of[i].Count() < c.Count {
				o.held = o.held.With(slot)
				o.of[i] = o.of[i].With(slot)
			}
		}
	}
	var used [numVendors]int
	for i := range claims {
		c := &claims[i]
		vendor := vendorIndex(c.Vendor)
		if vendor < 0 {
			continue
		}
		used[vendor] += c.Count
		missing := c.Count - o.of[i].Count()
		if missing == 0 {
			continue
		}
		presumed := (kind.vendor[vendor] &^ o.held).Lowest(missing)
		o.held |= presumed
		o.of[i] |= presumed
		o.debt[vendor] += int16(missing - presumed.Count())
	}
	for v := range numVendors {
		o.room[v] = int16(max(0, kind.sellable[v]-used[v]))
	}
	return o
}
