package ledger

import (
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

// View is one node as the planner sees it at one moment.
type View struct {
	// Node is the inventory; not to be changed.
	Node *model.Node
	Kind *Kind
	// Held are the devices in use, whole or in part; Shared those in use in part.
	Held, Shared model.Mask
	// FreeHost is the CPU and memory that no claim uses.
	FreeHost  model.Host
	extras    extrasLeft
	usage     []Usage
	room      [model.NumVendors]int16
	claims    []Claim
	byClaim   []model.Mask
	telemetry []model.Telemetry
	labels    *labels
}

// Equal says whether two views show the same occupancy.
func (v View) Equal(o View) bool {
	return v.Node == o.Node && v.Kind == o.Kind && v.Held == o.Held && v.Shared == o.Shared &&
		v.room == o.room && v.FreeHost == o.FreeHost && slices.Equal(v.extras, o.extras) && slices.Equal(v.usage, o.usage)
}

// Devices are the node's devices of a vendor, in any state of health and use.
func (v View) Devices(vendor model.Vendor) model.Mask {
	if i := vendor.Index(); i >= 0 {
		return v.Kind.vendor[i]
	}
	return 0
}

// Fixed are the devices sold in slices only.
func (v View) Fixed() model.Mask { return v.Kind.fixed }

// Replicated are the devices sold several times over as whole ones.
func (v View) Replicated() model.Mask { return v.Kind.replicated }

// Usable are the node's devices of a vendor that new work may use, free or held:
// healthy ones that are not cordoned.
func (v View) Usable(vendor model.Vendor) model.Mask {
	return v.Devices(vendor) & v.Kind.usable
}

// Cordoned are the node's healthy devices of a vendor that are cordoned.
func (v View) Cordoned(vendor model.Vendor) model.Mask {
	return v.Devices(vendor) & v.Kind.cordoned
}

// Free are the usable devices of a vendor that can be given to a request for whole
// ones: those that are not held, and replicated ones with a turn left.
func (v View) Free(vendor model.Vendor) model.Mask {
	free := v.Usable(vendor) &^ v.Held &^ v.Kind.fixed
	for slot := range (v.Usable(vendor) & v.Held & v.Kind.replicated).Slots() {
		if v.Turns(slot) > 0 {
			free = free.With(slot)
		}
	}
	return free
}

// Turns is how many more requests for whole devices a replicated device can serve; 0
// for a device that is not replicated.
func (v View) Turns(slot int) int {
	u := v.Usage(slot)
	if !v.Kind.replicated.Has(slot) || u.Cut != (mig.State{}) || u.Milli == model.FullMilli {
		return 0 // or cut into slices, or all of its compute is sold
	}
	return max(0, v.Node.Devices[slot].Tenants-u.Tenants)
}

// Sales is how many times devices of a set of free ones can be sold as whole ones.
func (v View) Sales(free model.Mask) int {
	sales := free.Count()
	for slot := range (free & v.Kind.replicated).Slots() {
		sales += v.Turns(slot) - 1
	}
	return sales
}

// Room is how many whole devices of a vendor can be sold now: the free ones, each
// replicated one for every turn left, unless the node's own agent allows fewer.
func (v View) Room(vendor model.Vendor) int {
	if i := vendor.Index(); i >= 0 {
		return min(v.Sales(v.Free(vendor)), int(v.room[i]))
	}
	return 0
}

// Usage is what shares and slices take of a device.
func (v View) Usage(slot int) Usage {
	if v.usage == nil {
		return Usage{}
	}
	return v.usage[slot]
}

// Left is what is left of a device to sell beside a usage, in thousandths: of a
// shared one what neither memory, compute nor the number of tenants has taken, of a
// cut one what can still be cut. It is the same for whole devices, shares and
// slices, so that they can be weighed against each other.
func (v View) Left(slot int, u Usage) int {
	d := &v.Node.Devices[slot]
	switch {
	case v.Held.Has(slot) && !v.Shared.Has(slot):
		return 0
	case u.Tenants == 0:
		return model.FullMilli
	case u.Cut.Used != 0:
		g := v.Kind.cuts[slot]
		return model.FullMilli * g.Cover(u.Cut) / max(1, g.Cover(mig.State{}))
	}
	taken := int64(u.Milli)
	if d.Memory > 0 {
		taken = max(taken, (model.FullMilli*int64(u.Memory)+int64(d.Memory)-1)/int64(d.Memory))
	}
	if d.Tenants > 0 {
		taken = max(taken, model.FullMilli*int64(u.Tenants)/int64(d.Tenants))
	}
	return model.FullMilli - int(min(taken, model.FullMilli))
}

// Fullness is what of a device is not left to sell beside a usage, in thousandths.
func (v View) Fullness(slot int, u Usage) int {
	return model.FullMilli - v.Left(slot, u)
}

// Cuts is how a device can be cut; nil when it cannot.
func (v View) Cuts(slot int) *mig.Geometry { return v.Kind.cuts[slot] }

// Fits says whether a part fits on a device beside a usage, which is the device's
// own or what it would be, and where a slice would begin. The device must not be
// held whole.
func (v View) Fits(slot int, u Usage, p model.Part) (start int, ok bool) {
	if v.Held.Has(slot) && !v.Shared.Has(slot) {
		return 0, false
	}
	return u.fits(&v.Node.Devices[slot], v.Kind.cuts[slot], p)
}

// With returns a usage with a part that fits added.
func (v View) With(slot int, u Usage, p model.Part, start int) Usage {
	u.add(&v.Node.Devices[slot], v.Kind.cuts[slot], p, start)
	return u
}

// HeldSince is when the youngest holder of a device was bound, in seconds, as far as that
// is known; 0 when it is not.
func (v View) HeldSince(slot int) (since int64) {
	for i := range v.claims {
		if s := v.claims[i].Since; v.byClaim[i].Has(slot) && s < math.MaxInt64 {
			since = max(since, s)
		}
	}
	return since
}
