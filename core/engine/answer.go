package engine

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
)

// Answers about the state, for people. None of them changes a decision, and none shares
// memory with the engine that it goes on changing. Each says what it costs: the caller
// holds the engine meanwhile.

// Sums are the state in a few numbers.
type Sums struct {
	// Nodes with devices, by condition.
	Nodes [NodeLost + 1]int
	// RunningGangs have a member with a place, RunningPods are these members.
	RunningGangs, RunningPods int
}

// Sums adds up nodes and what runs. Cost: nodes and running gangs; below 1 ms at 1,000
// nodes and 7,000 gangs.
func (e *Engine) Sums(of func(model.NodeID) Condition) (s Sums) {
	for id := range e.ledger.Nodes() { // sums do not depend on the order
		if v, _ := e.ledger.View(id); len(v.Node.Devices) > 0 {
			s.Nodes[of(id)]++
		}
	}
	for _, k := range e.running { // sums do not depend on the order
		s.RunningGangs++
		s.RunningPods += len(k.placed)
	}
	return s
}

// DeviceNodes are the nodes with devices, sorted. Cost: nodes.
func (e *Engine) DeviceNodes() (out []model.NodeID) {
	for id := range e.ledger.Nodes() { // sorted below
		if v, _ := e.ledger.View(id); len(v.Node.Devices) > 0 {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

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
	KeptFor ID
}

// DeviceState is a device, by slot of its node.
type DeviceState struct {
	Use  Use
	Mode Mode
	// Held is how much of it is not left to sell, in thousandths, Memory what of its memory
	// is held. Charged is what its holders have, as queues and quotas count it: of a device
	// that is cut or shared it can be another number, because what is left beside the parts
	// may be of no use, and because of each part its largest measure counts.
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
func (e *Engine) NodeState(id model.NodeID, condition Condition, idle *measure.Idle, now int64) (NodeState, bool) {
	v, there := e.ledger.View(id)
	if !there {
		return NodeState{}, false
	}
	s := NodeState{Node: v.Node, Free: v.FreeHost, Devices: make([]DeviceState, len(v.Node.Devices))}
	for _, r := range e.reserved {
		if s.KeptFor == "" && r.has(id) {
			s.KeptFor = r.id
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
	for c := range e.ledger.EachClaim(id) { // those with the oldest right first
		_, set := e.ledger.Held(c.Holder)
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

// Phase is how far a gang has come.
type Phase uint8

// Phases.
const (
	// Waiting: no member has a place.
	Waiting Phase = iota
	// Partial: it runs, or could, with members that wait.
	Partial
	// Starting: all members have a place, and not all are bound.
	Starting
	// Running: all members are bound.
	Running
)

// GangState is a gang in numbers. Its Gang shares its slices with the engine, which never
// changes them.
type GangState struct {
	Gang
	// Queue is where it is charged, named also where the gang names none.
	Queue string
	Phase Phase
	// Exist, Placed and Bound count members.
	Exist, Placed, Bound int
	// Milli is what all members that exist ask for, of GPUs; of those with a place what they
	// hold.
	Milli int64
	// Reserved are nodes that are kept for it, At from when on; 0: not known.
	Reserved []model.NodeID
	At       int64
	// Started is when the first member got its place; 0 for one that waits.
	Started int64
}

// GangState tells about a gang. Cost: its members.
func (e *Engine) GangState(id ID) (GangState, bool) {
	k := e.gangs[id]
	if k == nil {
		return GangState{}, false
	}
	s := GangState{Gang: k.Gang, Queue: k.queue(), Exist: k.exists, Placed: len(k.placed)}
	for _, p := range k.placed { // sums do not depend on the order
		if p.bound {
			s.Bound++
		}
	}
	sum := map[arbiter.Resource]int64{}
	for i := range k.Roles {
		e.add(sum, &k.Roles[i], len(k.Roles[i].Members)-k.have[i])
	}
	for _, a := range k.used {
		sum[a.Resource] += a.Value
	}
	for r, v := range sum { // sums do not depend on the order
		if isGPU(r) {
			s.Milli += v
		}
	}
	switch {
	case s.Placed == 0:
	case s.Placed < s.Exist || k.missing() > 0:
		s.Phase = Partial
	case s.Bound < s.Placed:
		s.Phase = Starting
	default:
		s.Phase = Running
	}
	if s.Placed > 0 {
		s.Started = k.started
	}
	s.At, s.Reserved, _ = e.Reservation(id)
	return s, true
}

// Seats are the members of a gang that have a place, and where; bound says which of them the
// API has confirmed. Cost: its members.
func (e *Engine) Seats(id ID) (nodes map[model.HolderID]model.NodeID, bound map[model.HolderID]bool) {
	nodes, bound = map[model.HolderID]model.NodeID{}, map[model.HolderID]bool{}
	if k := e.gangs[id]; k != nil {
		for h, s := range k.placed { // each for itself
			nodes[h], bound[h] = s.node, s.bound
		}
	}
	return nodes, bound
}

// Order are the gangs that wait and whose turn may come, in the order in which they would be
// offered, at most so many. Cost: an offer for each; about 3 ms for 5,000 of different kinds.
func (e *Engine) Order(most int) (ids []ID) {
	ids = make([]ID, 0, min(most, len(e.gangs)-len(e.running)))
	for job := range e.tree.Order(e.now) { // who has a place does not wait there
		if len(ids) == most {
			break
		}
		ids = append(ids, ID(job.ID))
	}
	return ids
}

// Listed is a gang with what lists of gangs are sorted and counted by.
type Listed struct {
	ID ID
	// Queue is named also where the gang names none.
	Name, Namespace, Queue string
	Submitted              int64
	// Waits: none of it has a place.
	Waits bool
}

// Compare orders gangs that wait before others, by submission, and the others by name.
func (a Listed) Compare(b Listed) int {
	switch {
	case a.Waits && !b.Waits:
		return -1
	case b.Waits && !a.Waits:
		return 1
	case a.Waits:
		return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

// List are all gangs, in no order. Cost: a few words for each; about 1 ms for 12,000.
func (e *Engine) List() []Listed {
	out := make([]Listed, 0, len(e.gangs))
	for id, k := range e.gangs { // the caller sorts
		out = append(out, Listed{id, k.Name, k.Namespace, k.queue(), k.Submitted, len(k.placed) == 0})
	}
	return out
}

// Named are the gangs with a name ("namespace/name"), sorted. Cost: gangs.
func (e *Engine) Named(name string) (out []ID) {
	for id, k := range e.gangs { // sorted below
		if k.Name == name {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// PartOf is a device, or a part of one, that a holder has.
type PartOf struct {
	Device *model.Device
	HeldBy
}

// PartsOf are the devices that a holder has on its node, by slot. Cost: the node's devices.
func (e *Engine) PartsOf(h model.HolderID) (out []PartOf) {
	node, set := e.ledger.Held(h)
	v, there := e.ledger.View(node)
	_, c, held := e.ledger.Claim(h)
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

// CountSeats is how many members of a gang have a place, and how many of these are bound.
// Cost: its members.
func (e *Engine) CountSeats(id ID) (placed, bound int) {
	if k := e.gangs[id]; k != nil {
		for _, s := range k.placed { // sums do not depend on the order
			if placed++; s.bound {
				bound++
			}
		}
	}
	return placed, bound
}

// ReservedFor are the gangs that nodes are kept for, in the order in which they were kept.
func (e *Engine) ReservedFor() (out []ID) {
	for _, r := range e.reserved {
		out = append(out, r.id)
	}
	return out
}
