package answer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// Sums are the state in a few numbers.
type Sums struct {
	// Nodes with devices, by condition.
	Nodes [NodeLost + 1]int
	// RunningGangs have a member with a place, RunningPods are these members.
	RunningGangs, RunningPods int
}

// Sums adds up nodes and what runs. Cost: nodes and running gangs; below 1 ms at 1,000
// nodes and 7,000 gangs.
func (a Figures) Sums(of func(model.NodeID) Condition) (s Sums) {
	for id := range a.cluster.Ledger().Nodes() { // sums do not depend on the order
		if v, _ := a.cluster.Ledger().View(id); len(v.Node.Devices) > 0 {
			s.Nodes[of(id)]++
		}
	}
	for _, k := range a.cluster.Running() { // sums do not depend on the order
		s.RunningGangs++
		s.RunningPods += k.Placed()
	}
	return s
}

// Use is what a part of a device is doing.
type Use uint8

// Uses. They are disjoint: the sum over all of them is the fleet.
const (
	// Free: new work may use it.
	Free Use = iota
	// Allocated: a holder has it, or is on its way to it.
	Allocated
	// IdleAllocated: a holder has it, and it was measured idle for a while.
	IdleAllocated
	// FailedDevice: the device failed, or its node is lost.
	FailedDevice
	// CordonedDevice: no pod holds it, and an operator keeps new work off it.
	CordonedDevice
	// DegradedDevice: it is not healthy, but has not failed.
	DegradedDevice

	// Uses is how many there are.
	Uses
)

// String is the use's stable name, for metrics.
func (u Use) String() string {
	return [...]string{"free", "allocated", "idle_allocated", "failed", "cordoned", "degraded"}[u]
}

// Fleet is the devices of one vendor and model, in thousandths of one, by what they do.
type Fleet struct {
	Vendor model.Vendor
	Model  model.GPUModel
	Milli  [Uses]int64
}

// Pending is what waits in one queue.
type Pending struct {
	Queue string
	// Pods have no place yet, Gangs are those with such members.
	Pods, Gangs int
	// Oldest is when the oldest of these gangs was submitted.
	Oldest int64
}

// Census is the state in figures. It shares no memory with the engine.
type Census struct {
	Fleet []Fleet
	// Shapes are the nodes that take new work, Classes the requests that wait or are
	// typical: what measure.Unusable needs.
	Shapes  []pack.Shape
	Classes []pack.Class
	Pending []Pending
	// Queues and Quotas count GPUs of all vendors, in thousandths.
	Queues       []arbiter.Holding
	Quotas       []arbiter.QuotaUse
	Reservations int
}

const (
	// typicalOneIn: a request is typical when one in so many is like it.
	typicalOneIn = 100
	// maxWaitingClasses bounds how many different requests that wait are looked at.
	maxWaitingClasses = 256
)

// Condition is what a node's own object says about it.
type Condition uint8

// Conditions of nodes.
const (
	Open Condition = iota
	NodeCordoned
	NodeLost
)

// Count takes a census: CountWork and CountDevices together. of tells about nodes, idle is
// told of held devices.
func (a Figures) Count(of func(model.NodeID) Condition, idle *measure.Idle, now int64) Census {
	c := a.CountWork(of)
	c.Fleet = a.CountDevices(of, idle, now)
	return c
}

// CountWork is all of a census but the devices. Cost: gangs and queues, and a copy of the
// nodes' shapes; at 1,000 nodes, 7,000 running and 5,000 waiting gangs about 2.5 ms.
func (a Figures) CountWork(of func(model.NodeID) Condition) Census {
	waiting := map[model.Shape]*model.Request{}
	return Census{
		Pending: a.countPending(waiting), Classes: a.wanted(waiting),
		Shapes: a.cluster.Planner().Shapes(func(id model.NodeID) bool { return of(id) == Open }),
		Queues: a.cluster.Tree().Holdings(cluster.IsGPU), Quotas: a.cluster.Tree().QuotaUses(cluster.IsGPU), Reservations: len(a.book.All()),
	}
}

// CountDevices adds up the fleet, by vendor and model. Cost: devices; about 1 ms for 8,000.
func (a Figures) CountDevices(of func(model.NodeID) Condition, idle *measure.Idle, now int64) []Fleet {
	type key struct {
		vendor model.Vendor
		model  model.GPUModel
	}
	sums := map[key]*Fleet{}
	var last *Fleet                              // devices of a node are mostly alike
	for id := range a.cluster.Ledger().Nodes() { // sums do not depend on the order
		v, _ := a.cluster.Ledger().View(id)
		condition := of(id)
		for slot := range v.Node.Devices {
			d := &v.Node.Devices[slot]
			if last == nil || last.Vendor != d.Vendor || last.Model != d.Model {
				k := key{d.Vendor, d.Model}
				if last = sums[k]; last == nil {
					last = &Fleet{Vendor: d.Vendor, Model: d.Model}
					sums[k] = last
				}
			}
			left := int64(v.Left(slot, v.Usage(slot)))
			held, unheld := Allocated, Free
			switch {
			case d.Health == model.Failed || condition == NodeLost:
				held, unheld = FailedDevice, FailedDevice
			case d.Health != model.Healthy:
				held, unheld = DegradedDevice, DegradedDevice
			case d.Cordoned || condition == NodeCordoned:
				unheld = CordonedDevice
			}
			if busy := v.Telemetry(slot).Utilization; held == Allocated && busy.Known && v.Held.Has(slot) && idle.Held(id, slot, v.HeldSince(slot)*1000, busy, now/1_000_000) {
				held = IdleAllocated
			}
			last.Milli[held] += model.FullMilli - left
			last.Milli[unheld] += left
		}
	}
	idle.Sweep()
	return slices.SortedFunc(func(yield func(Fleet) bool) {
		for _, f := range sums {
			if !yield(*f) {
				return
			}
		}
	}, func(a, b Fleet) int {
		return cmp.Or(cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Model.String(), b.Model.String()))
	})
}

// countPending adds up what waits, by queue, and notes one request of each shape.
func (a Figures) countPending(waiting map[model.Shape]*model.Request) []Pending {
	sums := map[string]*Pending{}
	for _, k := range a.cluster.Gangs() { // sums do not depend on the order
		if k.Placed() >= k.Exists() {
			continue
		}
		p := sums[k.QueueName()]
		if p == nil {
			p = &Pending{Queue: k.QueueName(), Oldest: k.Submitted}
			sums[p.Queue] = p
		}
		p.Gangs++
		p.Pods += k.Exists() - k.Placed()
		p.Oldest = min(p.Oldest, k.Submitted)
		if len(waiting) < maxWaitingClasses && k.Invalid == "" {
			for i := range k.Roles {
				waiting[k.Roles[i].Shape] = k.Roles[i].Request
			}
		}
	}
	var out []Pending
	for _, queue := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, *sums[queue])
	}
	return out
}

// wanted are the classes of requests that wait or are typical.
func (a Figures) wanted(waiting map[model.Shape]*model.Request) []pack.Class {
	out := a.cluster.Planner().Typical(typicalOneIn)
	for _, r := range waiting { // sorted below
		if c, ok := a.cluster.Planner().Class(r); ok && c.GPUs > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, pack.Class.Compare)
	return slices.Compact(out)
}

// Holding is what a holder holds of each model, physically: a turn on a device that is
// sold several times over is its part of the device.
func (a Figures) Holding(h model.HolderID) []measure.Hold {
	node, claim, held := a.cluster.Ledger().Claim(h)
	v, there := a.cluster.Ledger().View(node)
	if !held || !there || claim.Vendor == "" {
		return nil
	}
	sums := map[model.GPUModel]int64{}
	_, set := a.cluster.Ledger().Held(h)
	whole := claim.Count
	if len(claim.Parts) == 0 {
		for slot := range set.Slots() {
			d := &v.Node.Devices[slot]
			milli := int64(model.FullMilli)
			if d.Replicated {
				milli /= int64(max(1, d.Tenants))
			}
			sums[d.Model] += milli
			whole--
		}
	}
	if whole > 0 { // bound without a record, beyond what the node has
		sums[model.GPUModel{}] += int64(whole) * model.FullMilli
	}
	for _, p := range claim.Parts {
		var d *model.Device
		if slot := v.Node.Slot(p.Device.Index, p.Device.UUID); p.Known && slot >= 0 {
			d = &v.Node.Devices[slot]
		}
		m := model.GPUModel{}
		if d != nil {
			m = d.Model
		}
		sums[m] += int64(ledger.Fraction(p.Part, d))
	}
	var out []measure.Hold
	for m, milli := range sums { // sorted below
		out = append(out, measure.Hold{Model: m, Milli: milli})
	}
	slices.SortFunc(out, func(a, b measure.Hold) int { return cmp.Compare(a.Model.String(), b.Model.String()) })
	return out
}

// Wake is when the next step is due though nothing happens, in nanoseconds; 0: not by itself.
func (a Figures) Wake() int64 {
	timer, watch := a.memo.NextTimer(), a.releases.WatchAt()
	if timer != 0 && (watch == 0 || timer < watch) {
		return timer
	}
	return watch
}
