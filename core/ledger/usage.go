package ledger

import (
	"strconv"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

// Usage is what shares and slices take of one device together.
type Usage struct {
	Memory  model.MiB
	Milli   int
	Tenants int
	// Cut is what MIG instances cover. A device with shares has none and the other
	// way round.
	Cut mig.State
}

// fits says whether a part fits on a device beside its usage, and where a slice
// would begin.
func (u *Usage) fits(d *model.Device, g *mig.Geometry, p model.Part) (start int, ok bool) {
	if p.Kind == model.Slice {
		if g == nil || u.Tenants > 0 && u.Cut == (mig.State{}) {
			return 0, false
		}
		profile := g.Find(p.Profile)
		if profile < 0 {
			return 0, false
		}
		start = g.Place(u.Cut, profile)
		return start, start >= 0
	}
	if d.Fixed || u.Cut != (mig.State{}) || d.Tenants > 0 && u.Tenants >= d.Tenants || p.Turn && d.Tenants == 0 {
		return 0, false
	}
	// Only sums count here, so that the result does not depend on the order of parts.
	// Whether a share of all compute gets the device alone is decided by place.
	if u.Milli+p.Milli > model.FullMilli {
		return 0, false
	}
	// A percentage of an unknown amount would be 0, and any number of shares would fit.
	if p.MemoryMilli > 0 && d.Memory == 0 {
		return 0, false
	}
	return 0, u.Memory+p.MemoryOn(d) <= d.Memory
}

// fitsAt is fits for a slice with a known start.
func (u *Usage) fitsAt(d *model.Device, g *mig.Geometry, p model.Part, start int) bool {
	_, ok := u.fits(d, g, p)
	if !ok || p.Kind != model.Slice {
		return ok
	}
	_, ok = g.Take(u.Cut, g.Find(p.Profile), start)
	return ok
}

// add takes a part that fits.
func (u *Usage) add(d *model.Device, g *mig.Geometry, p model.Part, start int) {
	u.Tenants++
	if p.Kind == model.Slice {
		u.Cut, _ = g.Take(u.Cut, g.Find(p.Profile), start)
		return
	}
	u.Memory += p.MemoryOn(d)
	u.Milli += p.Milli
}

// spellUsage is a text that is equal exactly for nodes with equal usage of their
// devices.
func spellUsage(usage []Usage) string {
	if usage == nil {
		return ""
	}
	b := make([]byte, 0, 16*len(usage))
	for _, u := range usage {
		for _, number := range [...]int64{int64(u.Memory), int64(u.Milli), int64(u.Tenants), int64(u.Cut.Used)} {
			b = append(strconv.AppendInt(b, number, 10), ' ')
		}
		b = append(strconv.AppendBool(b, u.Cut.Media), ';')
	}
	return string(b)
}

// Fraction is the part of a device that a share or a slice takes, in thousandths,
// rounded up: the largest of its parts of memory, compute and turns. It is what limits
// count. nil stands for a device of which nothing is known: then it is the most that the
// part can be.
func Fraction(p model.Part, d *model.Device) int {
	switch {
	case p.Kind == model.Whole:
		return model.FullMilli
	case p.Kind == model.Slice:
		return sliceFraction(p.Profile, d)
	case p.Turn:
		if d == nil || d.Tenants == 0 {
			return model.FullMilli
		}
		return roundUp(model.FullMilli, int64(d.Tenants))
	}
	part := max(p.Milli, p.MemoryMilli)
	if p.Memory > 0 {
		if d == nil || d.Memory == 0 {
			return model.FullMilli
		}
		part = max(part, roundUp(model.FullMilli*int64(p.MemoryOn(d)), int64(d.Memory)))
	}
	return min(part, model.FullMilli)
}

// sliceFraction is the part of the memory slices that a MIG profile takes. The profile's
// name has it, too (3g of 7), but not exactly, and not the same on every model.
func sliceFraction(profile string, d *model.Device) int {
	if d != nil && d.MIGSlices > 0 {
		if i := mig.Find(d.MIG, profile); i >= 0 && !(d.Fixed && d.MIGSlices == 1) {
			return roundUp(int64(model.FullMilli*d.MIG[i].Size), int64(d.MIGSlices))
		}
	}
	if most := mig.Largest(profile); most > 0 {
		return most
	}
	return model.FullMilli
}

func roundUp(a, b int64) int { return int((a + b - 1) / b) }
