package ledger

import "github.com/tangram-dev/tangram/core/model"

// View is one node as the planner sees it at one moment.
type View struct {
	// Node is the inventory; not to be changed.
	Node *model.Node
	Kind *Kind
	// Held are the devices in somebody's hands.
	Held model.Mask
	room [numVendors]int16
}

// Devices are the node's devices of a vendor, whatever their state.
func (v View) Devices(vendor model.Vendor) model.Mask {
	if i := vendorIndex(vendor); i >= 0 {
		return v.Kind.vendor[i]
	}
	return 0
}

// Healthy are the node's healthy devices of a vendor, free or held.
func (v View) Healthy(vendor model.Vendor) model.Mask {
	return v.Devices(vendor) & v.Kind.healthy
}

// Free are the healthy devices of a vendor nobody holds.
func (v View) Free(vendor model.Vendor) model.Mask {
	return v.Healthy(vendor) &^ v.Held
}

// Room is how many devices of a vendor can be sold now: the free ones, unless
// the node's own agent allows fewer.
func (v View) Room(vendor model.Vendor) int {
	if i := vendorIndex(vendor); i >= 0 {
		return min(v.Free(vendor).Count(), int(v.room[i]))
	}
	return 0
}
