package planner

import (
	"slices"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
)

// Demand is how much of devices a request is charged, in thousandths of one, summed over
// its devices: of the fleet's devices that can take it. A slice counts with its largest
// part of a device, a share of memory with its smallest: more would keep shares waiting
// though large devices have room. A request that no device of the fleet can take counts as
// whole devices, unless it says itself how much of a device it takes.
func (p *Planner) Demand(r *model.Request) int64 {
	least, most := p.demand(r)
	if r.Kind() == model.Slice {
		return most
	}
	return least
}

func (p *Planner) demand(r *model.Request) (least, most int64) {
	if r.Kind() == model.Whole {
		whole := int64(r.Count()) * pack.Whole
		return whole, whole
	}
	low, high, ok := p.parts(r)
	if !ok {
		low = stated(r)
		high = low
	}
	devices := int64(r.Count())
	if r.Kind() == model.Slice { // an init container's instance exists to the end
		devices = 0
		for _, c := range r.Containers {
			devices += int64(c.Count)
		}
	}
	return devices * int64(low), devices * int64(high)
}

// parts is the largest part of one device that a container of the request takes, in
// thousandths: on the device of the fleet where that is least, and where it is most.
// False when no device of the fleet can take all its containers.
func (p *Planner) parts(r *model.Request) (least, most int, ok bool) {
	p.lookDevices()
	least = pack.Whole
	for i := range p.devices {
		d := &p.devices[i]
		if d.Vendor != r.Vendor || !place.Allows(r, d) || !takes(r, d) {
			continue
		}
		part := max(1, fraction(r, d))
		least, most, ok = min(least, part), max(most, part), true
	}
	return least, most, ok
}

// takes says whether an unused device like this one can take each container of the
// request.
func takes(r *model.Request, d *model.Device) bool {
	for _, c := range r.Containers {
		switch part := c.Part; {
		case c.Count == 0:
		case part.Kind == model.Slice:
			if mig.Find(d.MIG, part.Profile) < 0 {
				return false
			}
		case part.Kind == model.Share:
			if d.Fixed || part.MemoryOn(d) > d.Memory || part.MemoryMilli > 0 && d.Memory == 0 || part.Turn && d.Tenants == 0 {
				return false
			}
		}
	}
	return true
}

// stated is the largest part of a device that a container asks for, as far as the
// request alone says it: whole devices for slices, turns and amounts of memory.
func stated(r *model.Request) int {
	most := 1
	for _, c := range r.Containers {
		switch part := c.Part; {
		case c.Count == 0:
		case part.Kind != model.Share || part.Turn || part.Memory > 0:
			return pack.Whole
		default:
			most = max(most, part.Milli, part.MemoryMilli)
		}
	}
	return min(most, pack.Whole)
}

// lookDevices lists the devices of the fleet, one of each that differ in what Demand
// depends on.
func (p *Planner) lookDevices() {
	version := p.ledger.KindsVersion()
	if version == p.devicesKinds {
		return
	}
	p.devices, p.devicesKinds = nil, version
	for v := range p.ledger.Kinds() {
		for i := range v.Node.Devices {
			if d := &v.Node.Devices[i]; !slices.ContainsFunc(p.devices, func(o model.Device) bool { return alike(d, &o) }) {
				p.devices = append(p.devices, *d)
			}
		}
	}
}

func alike(a, b *model.Device) bool {
	return a.Vendor == b.Vendor && a.Model == b.Model && a.Memory == b.Memory && a.Tenants == b.Tenants &&
		a.Fixed == b.Fixed && a.MIGSlices == b.MIGSlices && slices.EqualFunc(a.MIG, b.MIG, func(x, y model.MIGProfile) bool {
		return x.Name == y.Name && x.Size == y.Size
	})
}
