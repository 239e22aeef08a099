package planner

import (
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// shapes are a node's shape without holders and its present one. A node with devices of
// several models or vendors counts as one of its first device's: the index only
// proposes candidates, so the worst case is a missed proposal, after which every bucket
// is evaluated.
func (p *Planner) shapes(v ledger.View) (empty, now pack.Shape) {
	now.CPU, now.Memory = v.FreeHost.CPU, int64(v.FreeHost.Memory.MiB())
	empty.CPU, empty.Memory = v.Node.Host.CPU, int64(v.Node.Host.Memory.MiB())
	devices := v.Node.Devices[:min(len(v.Node.Devices), pack.MaxGPUs)]
	if len(devices) == 0 {
		return empty, now
	}
	now.GPUs = uint8(len(devices))
	now.Model = p.models.id(&devices[0])
	now.Grade = uint8(score.Grade(devices[0].Model))
	empty.GPUs, empty.Model, empty.Grade = now.GPUs, now.Model, now.Grade
	vendor := devices[0].Vendor
	healthy := v.Usable(vendor)
	room := v.Room(vendor)
	for slot := range devices {
		if !healthy.Has(slot) {
			continue
		}
		empty.Free[slot] = pack.Whole
		left := v.Left(slot, v.Usage(slot))
		if v.Turns(slot) > 0 {
			left = pack.Whole // a request for a whole device gets a turn
		}
		if left == pack.Whole {
			if room--; room < 0 { // the node's own agent sells no more whole ones
				left--
			}
		}
		now.Free[slot] = uint16(left)
	}
	for c := range p.ledger.EachClaim(v.Node.ID) {
		now.Guests |= guest(c)
	}
	return empty, now
}

// inexact says whether the shape represents a node only in part.
func inexact(n *model.Node) bool {
	for i := range n.Devices {
		d := &n.Devices[i]
		if i == pack.MaxGPUs || d.Vendor != n.Devices[0].Vendor || d.Model != n.Devices[0].Model || d.NominalMemory() != n.Devices[0].NominalMemory() {
			return true
		}
	}
	return false
}

// guest is how a holder shows in Shape.Guests.
func guest(c *ledger.Claim) uint32 {
	switch {
	case len(c.Parts) > 0:
		return (&pack.Class{GPUs: 1, Milli: 1}).GuestBit()
	case c.Count > 0:
		return (&pack.Class{GPUs: uint8(min(c.Count, pack.MaxGPUs)), Milli: pack.Whole}).GuestBit()
	}
	return 0
}

// after is the shape of a node once a grant is taken.
func (p *Planner) after(now pack.Shape, r *model.Request, v ledger.View, g *place.Grant) pack.Shape {
	now.CPU, now.Memory = max(0, now.CPU-r.Host.CPU), max(0, now.Memory-int64(r.Host.Memory.MiB()))
	if len(g.Parts) == 0 {
		for slot := range g.Set.Slots() {
			if slot < pack.MaxGPUs { // a turn of a replicated device costs like all of it, as in the index
				now.Free[slot] = 0
			}
		}
		return now
	}
	usage := map[int]ledger.Usage{}
	for _, part := range place.Hold(r, g.Parts) {
		u, ok := usage[part.Slot]
		if !ok {
			u = v.Usage(part.Slot)
		}
		usage[part.Slot] = v.With(part.Slot, u, part.Part, part.Start)
	}
	for slot, u := range usage { // each for itself: the order does not matter
		if slot < pack.MaxGPUs {
			now.Free[slot] = uint16(v.Left(slot, u))
		}
	}
	return now
}

// models gives GPU models small numbers, in the order they are first seen.
type models struct {
	ids     map[modelKey]pack.ModelID
	samples []model.Device // by ModelID; the first stands for "no GPU"
}

// modelKey is equal for devices that no request by model or memory distinguishes.
type modelKey struct {
	vendor model.Vendor
	model  model.GPUModel
	memory model.MiB
}

// otherModels is the ID shared by all models beyond those with an ID of their own.
const otherModels pack.ModelID = pack.MaxModels - 1

// computeOnly says whether compute is all that devices can be shared by, as in traces
// without memory sizes.
func (m *models) computeOnly() bool {
	for i := range m.samples {
		if m.samples[i].Memory > 0 || m.samples[i].Tenants > 0 || len(m.samples[i].MIG) > 0 {
			return false
		}
	}
	return true
}

// Know assigns a model its ID before a node has it.
func (p *Planner) Know(d *model.Device) pack.ModelID { return p.models.id(d) }

func (m *models) id(d *model.Device) pack.ModelID {
	key := modelKey{d.Vendor, d.Model, d.NominalMemory()}
	if id, ok := m.ids[key]; ok {
		return id
	}
	if m.ids == nil {
		m.ids, m.samples = map[modelKey]pack.ModelID{}, make([]model.Device, 1)
	}
	if len(m.samples) == int(otherModels) {
		return otherModels
	}
	id := pack.ModelID(len(m.samples))
	m.ids[key] = id
	m.samples = append(m.samples, *d)
	return id
}
