package answer

import (
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
)

// Mode is how a device is handed out.
type Mode uint8

// Modes.
const (
	NotHeld Mode = iota
	HeldWhole
	HeldShared
	HeldInSlices
	HeldInTurns
)

// String is the mode's stable name; empty for a device without holders.
func (m Mode) String() string { return [...]string{"", "whole", "shared", "mig", "replicated"}[m] }

// NodeState is a node with who holds what of it.
type NodeState struct {
	// Node is its inventory, which never changes.
	Node *model.Node
	// Free is what no claim uses of its processors and memory.
	Free    model.Host
	Devices []DeviceState
	// KeptFor is a gang that the node is kept for; empty when it is for none.
	KeptFor cluster.ID
}

// DeviceState is a device, by slot of its node.
type DeviceState struct {
	Use  Use
	Mode Mode
	// Held is how much of it is not left to sell, in thousandths, Memory what of its memory
	// is held. Charged is what queues and quotas count; it differs where what is left beside
	// parts is of no use.
	Held      int
	Charged   int
	Memory    model.MiB
	Telemetry model.Telemetry
	Holders   []HeldBy
}

// HeldBy is what one holder has of a device.
type HeldBy struct {
	Holder model.HolderID
	// Milli is the part of the device, in thousandths, Memory in MiB.
	Milli  int
	Memory model.MiB
	// Profile, Start and Size are of a MIG slice.
	Profile     string
	Start, Size int
	// Assumed: it is decided, and not yet bound.
	Assumed bool
}

// NodeState says who holds what of a node; false when there is no such node. Cost: its
// devices and claims, some microseconds.
func (a Nodes) NodeState(id model.NodeID, condition Condition, idle *measure.Idle, now int64) (NodeState, bool) {
	v, there := a.cluster.Ledger().View(id)
	if !there {
		return NodeState{}, false
	}
	s := NodeState{Node: v.Node, Free: v.FreeHost, Devices: make([]DeviceState, len(v.Node.Devices))}
	for _, r := range a.book.All() {
		if s.KeptFor == "" && r.Has(id) {
			s.KeptFor = r.Gang()
		}
	}
	for slot := range v.Node.Devices {
		d, state := &v.Node.Devices[slot], &s.Devices[slot]
		usage := v.Usage(slot)
		state.Held, state.Telemetry = v.Fullness(slot, usage), v.Telemetry(slot)
		switch {
		case !v.Held.Has(slot):
		case usage.Cut.Used != 0 || d.Fixed:
			state.Mode = HeldInSlices
		case d.Replicated:
			state.Mode = HeldInTurns
		case v.Shared.Has(slot):
			state.Mode = HeldShared
		default:
			state.Mode = HeldWhole
		}
		state.Use = useOf(d, condition, v.Held.Has(slot), v.Held.Has(slot) && idle.Is(id, slot, now/1_000_000))
	}
	for c := range a.cluster.Ledger().EachClaim(id) { // those with the oldest right first
		_, set := a.cluster.Ledger().Held(c.Holder)
		for slot := range set.Slots() {
			state := &s.Devices[slot]
			for _, h := range heldBy(c, &v.Node.Devices[slot]) {
				state.Holders = append(state.Holders, h)
				state.Charged += h.Milli
				state.Memory = min(state.Memory+h.Memory, v.Node.Devices[slot].Memory)
			}
		}
	}
	return s, true
}

// useOf is what a device does as a whole; see Use.
func useOf(d *model.Device, condition Condition, held, idle bool) Use {
	switch {
	case d.Health == model.Failed || condition == NodeLost:
		return FailedDevice
	case d.Health != model.Healthy:
		return DegradedDevice
	case held && idle:
		return IdleAllocated
	case held:
		return Allocated
	case d.Cordoned || condition == NodeCordoned:
		return CordonedDevice
	}
	return Free
}

// heldBy is what a claim has of one of its devices: the whole, a turn, or the parts that it
// names there. A part whose device is not known is shown on the device that the ledger
// presumes.
func heldBy(c *ledger.Claim, d *model.Device) (out []HeldBy) {
	for _, p := range c.Parts {
		if p.Known && (p.Device.Index != d.Index || p.Device.UUID != "" && d.UUID != "" && p.Device.UUID != d.UUID) {
			continue
		}
		h := HeldBy{Holder: c.Holder, Assumed: c.Assumed, Milli: ledger.Fraction(p.Part, d), Memory: p.MemoryOn(d)}
		if p.Kind == model.Slice {
			h.Profile, h.Start = p.Profile, p.Start
			for i := range d.MIG {
				if d.MIG[i].Name == p.Profile {
					h.Memory, h.Size = d.MIG[i].Memory, d.MIG[i].Size
					break
				}
			}
		}
		out = append(out, h)
	}
	if len(c.Parts) > 0 {
		return out
	}
	h := HeldBy{Holder: c.Holder, Assumed: c.Assumed, Milli: model.FullMilli, Memory: d.Memory}
	if d.Replicated && d.Tenants > 0 { // a turn has no memory of its own
		h.Milli, h.Memory = model.FullMilli/d.Tenants, 0
	}
	return append(out, h)
}

// PartOf is a device, or a part of one, that a holder has.
type PartOf struct {
	Device *model.Device
	HeldBy
}

// PartsOf are the devices that a holder has on its node, by slot. Cost: the node's devices.
func (a Nodes) PartsOf(h model.HolderID) (out []PartOf) {
	node, set := a.cluster.Ledger().Held(h)
	v, there := a.cluster.Ledger().View(node)
	_, c, held := a.cluster.Ledger().Claim(h)
	if !there || !held {
		return nil
	}
	for slot := range set.Slots() {
		for _, p := range heldBy(&c, &v.Node.Devices[slot]) {
			out = append(out, PartOf{&v.Node.Devices[slot], p})
		}
	}
	return out
}
