package planner

import (
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
)

// class is what the index sees of a request: the least it can need on any node, so
// that no node that would do is left out. False when no model of the fleet is
// allowed.
func (p *Planner) class(r *model.Request) (pack.Class, bool) {
	c := pack.Class{CPU: r.Host.CPU, Memory: int64(r.Host.Memory.MiB())}
	if r.Vendor == "" {
		return c, true // asks for no device
	}
	allowed, all := pack.Set(otherModels), pack.Set(otherModels)
	found := false
	for i := 1; i < len(p.models.samples); i++ {
		d := &p.models.samples[i]
		all |= pack.Set(pack.ModelID(i))
		if d.Vendor != r.Vendor || !place.Allows(r, d) {
			continue
		}
		allowed |= pack.Set(pack.ModelID(i))
		found = true
	}
	if !found {
		return c, false
	}
	if allowed != all {
		c.Models = allowed
	}
	c.GPUs, c.Milli = uint8(min(r.Distinct(), pack.MaxGPUs)), pack.Whole
	if r.Kind() != model.Whole {
		least, _, _ := p.parts(r)
		c.GPUs, c.Milli = 1, uint16(least)
	}
	return c, true
}

// fraction is the largest part of one device a container of the request takes, in
// thousandths.
func fraction(r *model.Request, d *model.Device) int {
	most := 0
	for _, c := range r.Containers {
		if c.Count > 0 {
			most = max(most, partOf(c.Part, d))
		}
	}
	return min(most, pack.Whole)
}

// partOf is the part of a device that can take it, in thousandths: see takes.
func partOf(p model.Part, d *model.Device) int {
	switch {
	case p.Kind == model.Whole:
		return pack.Whole
	case p.Kind == model.Slice:
		return pack.Whole * d.MIG[mig.Find(d.MIG, p.Profile)].Size / d.MIGSlices
	case p.Turn:
		return pack.Whole / max(1, d.Tenants)
	}
	part := p.Milli
	if d.Memory > 0 {
		part = max(part, int((pack.Whole*p.MemoryOn(d)+d.Memory-1)/d.Memory))
	}
	return max(part, p.MemoryMilli)
}

// exact says whether the class tells all about what the request takes of a node.
func exact(r *model.Request, uniform bool) bool {
	asking := 0
	for _, c := range r.Containers {
		if c.Count == 0 {
			continue
		}
		asking++
		switch {
		case c.Part.Kind == model.Whole && uniform:
		case c.Part.Kind == model.Share && c.Count == 1 && c.Part.Memory == 0 && c.Part.MemoryMilli == 0 && c.Part.Milli > 0 && c.Part.Milli < pack.Whole:
		default:
			return false
		}
	}
	return asking <= 1
}
