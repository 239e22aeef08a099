package records

import (
	"slices"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// use is the part of a GPU that a device ID or an entry of a record stands for.
type use struct {
	gpu string // UUID
	// slice: memory slices from start to end, exclusive; otherwise share or whole.
	slice      bool
	start, end int
	// share: a turn or an amount, beside others.
	share bool
}

// excludes says whether two uses of one node cannot be at the same time: a whole GPU is
// alone, MIG instances do not overlap, and a GPU is shared in one way only.
func (u use) excludes(v use) bool {
	switch {
	case u.gpu != v.gpu:
		return false
	case u.slice && v.slice:
		return u.start < v.end && v.start < u.end
	}
	return !u.share || !v.share
}

// excludesAny says whether a use excludes one of some others.
func (u use) excludesAny(others []use) bool { return slices.ContainsFunc(others, u.excludes) }

// touches says whether two uses have a device in common, exclusive or not.
func (u use) touches(v use) bool {
	if u.slice && v.slice {
		return u.excludes(v)
	}
	return u.gpu == v.gpu
}

// useOf is the use that an entry of a record stands for. A device that the node does
// not have is used by no other pod.
func useOf(d record.Device, inv *device.Inventory) use {
	u := use{gpu: d.UUID, share: d.Turn || d.MemoryMiB > 0 || d.ComputeMilli > 0}
	size := 1
	if i := slices.IndexFunc(inv.Devices, func(have device.Device) bool {
		return d.UUID != "" && have.UUID == d.UUID || d.UUID == "" && have.Index == d.Index
	}); i >= 0 {
		u.gpu, size = inv.Devices[i].UUID, sizeOf(&inv.Devices[i], d.MIG, d.Start)
	}
	if d.MIG != "" {
		u.slice, u.start, u.end = true, d.Start, d.Start+size
	}
	return u
}

// sizeOf is how many memory slices an instance covers; 1 when nothing says so.
func sizeOf(d *device.Device, profile string, start int) int {
	if i := d.InstanceAt(profile, start); i != nil && i.Size > 0 {
		return i.Size
	}
	if d.MIG != nil {
		for _, p := range d.MIG.Profiles {
			if device.SameProfile(p.Name, profile) && p.Size > 0 {
				return p.Size
			}
		}
	}
	return 1
}

// usesOf are the uses of all entries of a record.
func usesOf(r *record.Record, inv *device.Inventory) (out []use) {
	if r == nil {
		return nil
	}
	for _, c := range r.Containers {
		for _, d := range c.Devices {
			out = append(out, useOf(d, inv))
		}
	}
	return out
}

// anyOf says whether a relation holds between any two of two lists.
func anyOf(a, b []use, related func(use, use) bool) bool {
	return slices.ContainsFunc(a, func(u use) bool {
		return slices.ContainsFunc(b, func(v use) bool { return related(u, v) })
	})
}

// sameDevice says whether two entries name the same device, or the same slice of one.
func sameDevice(a, b record.Device) bool {
	same := a.UUID == b.UUID
	if a.UUID == "" || b.UUID == "" {
		same = a.Index == b.Index
	}
	return same && device.SameProfile(a.MIG, b.MIG) && a.Start == b.Start
}

// contains says whether one of some entries names a device.
func contains(entries []record.Device, d record.Device) bool {
	return slices.ContainsFunc(entries, func(e record.Device) bool { return sameDevice(e, d) })
}
