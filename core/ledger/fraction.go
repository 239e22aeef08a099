package ledger

import (
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

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
