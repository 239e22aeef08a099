package records

import (
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
	for i := range inv.Devices {
		have := &inv.Devices[i]
		if d.UUID != "" && have.UUID != d.UUID || d.UUID == "" && have.Index != d.Index {
			continue
		}
		u.gpu = have.UUID
		if d.MIG != "" {
			u.slice, u.start, u.end = true, d.Start, d.Start+sizeOf(have, d.MIG, d.Start)
		}
		return u
	}
	if d.MIG != "" {
		u.slice, u.start, u.end = true, d.Start, d.Start+1
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
	for _, u := range a {
		for _, v := range b {
			if related(u, v) {
				return true
			}
		}
	}
	return false
}

// sameDevice says whether two entries name the same device, or the same slice of one.
func sameDevice(a, b record.Device) bool {
	if a.UUID != "" && b.UUID != "" && a.UUID != b.UUID {
		return false
	}
	if (a.UUID == "" || b.UUID == "") && a.Index != b.Index {
		return false
	}
	return device.SameProfile(a.MIG, b.MIG) && a.Start == b.Start
}
