package place

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// GrantedPart is a share or slice one container gets of one device.
type GrantedPart struct {
	// Container is the container's position in the request.
	Container int
	Slot      int
	// Part is what it asked for.
	Part model.Part
	// Memory is what a share gets: in MiB, also when it was asked for in thousandths.
	Memory model.MiB
	// Start is the memory slice a slice begins at.
	Start int
}

// amounts are what shares take of a device together. Memory in MiB and in thousandths is
// kept separately, because a record is read without knowing the device.
type amounts struct {
	memory      model.MiB
	memoryMilli int
	milli       int
	tenants     int
}

func (a amounts) plus(p model.Part) amounts {
	return amounts{a.memory + p.Memory, a.memoryMilli + p.MemoryMilli, a.milli + p.Milli, a.tenants + 1}
}

func (a amounts) max(b amounts) amounts {
	return amounts{max(a.memory, b.memory), max(a.memoryMilli, b.memoryMilli), max(a.milli, b.milli), max(a.tenants, b.tenants)}
}

// Hold converts what containers were granted into what their holder keeps for its whole
// life. Containers that run together add up. Where an init container, beside the
// sidecars started before it, takes at least as much of a device as the others do
// afterwards, its amount is held instead. Slices are instances and exist until the pod
// ends. The parts' Memory is ignored, so that the claim is the same when it is granted
// and when it is read from a record.
func Hold(r *model.Request, parts []GrantedPart) []GrantedPart {
	var out []GrantedPart
	after, early, peak := map[int]amounts{}, map[int]amounts{}, map[int]amounts{}
	for i, c := range r.Containers {
		for _, p := range parts {
			switch {
			case p.Container != i:
			case c.Phase != model.Init || p.Part.Kind == model.Slice:
				out = append(out, p)
				after[p.Slot] = after[p.Slot].plus(p.Part)
				if c.Phase == model.Sidecar {
					early[p.Slot] = early[p.Slot].plus(p.Part)
				}
			default:
				peak[p.Slot] = peak[p.Slot].max(early[p.Slot].plus(p.Part))
			}
		}
	}
	for _, p := range parts {
		top, found := peak[p.Slot]
		if !found {
			continue
		}
		delete(peak, p.Slot)
		for n := after[p.Slot].tenants; n < top.tenants; n++ {
			out = append(out, GrantedPart{Container: p.Container, Slot: p.Slot, Part: model.Part{Kind: model.Share, Turn: p.Part.Turn}})
		}
		pool(out, p.Slot, top, after[p.Slot])
	}
	return out
}

// pool gives the first part on a device the whole of each amount whose peak is during
// an init container, and the other parts none of it, so that the amount is rounded
// once.
func pool(parts []GrantedPart, slot int, top, after amounts) {
	first := true
	for i := range parts {
		if parts[i].Slot != slot {
			continue
		}
		held := amounts{}
		if first {
			held, first = top, false
		}
		p := &parts[i].Part
		if top.memory >= after.memory {
			p.Memory = held.memory
		}
		if top.memoryMilli >= after.memoryMilli {
			p.MemoryMilli = held.memoryMilli
		}
		if top.milli >= after.milli {
			p.Milli = held.milli
		}
	}
}

// holds says whether what the holder of the grant keeps fits. With memory in MiB and in
// thousandths in one pod, that is more than is needed at any one time.
func (l *layer) holds(g Grant) bool {
	usage := map[int]ledger.Usage{}
	for _, p := range Hold(l.r, g.Parts) {
		u := l.at(usage, p.Slot)
		if _, ok := l.v.Fits(p.Slot, u, p.Part); !ok {
			return false
		}
		usage[p.Slot] = l.v.With(p.Slot, u, p.Part, p.Start)
	}
	return true
}

// fitParts lays shares or slices on the allowed devices. Containers that run
// together add up; an init container meets only the sidecars started before it.
func fitParts(r *model.Request, v ledger.View, allowed model.Mask, worth Worth) (Grant, *explain.Refusal) {
	l := layer{r: r, v: v, allowed: allowed, worth: worth, now: map[int]ledger.Usage{}}
	var g Grant
	for i, c := range r.Containers {
		// A slice is an instance: an init container's exists as long as its pod.
		if c.Phase != model.Init || c.Part.Kind == model.Slice {
			if refusal := l.lay(&g, i, l.now, nil); refusal != nil {
				return Grant{}, refusal
			}
		}
	}
	// An init container runs beside the sidecars started before it, and no other
	// container of its pod.
	early := map[int]ledger.Usage{}
	for i, c := range r.Containers {
		switch {
		case c.Phase == model.Sidecar:
			for _, p := range g.Parts {
				if p.Container == i {
					early[p.Slot] = v.With(p.Slot, l.at(early, p.Slot), p.Part, p.Start)
				}
			}
		case c.Phase == model.Init && c.Part.Kind == model.Share:
			if refusal := l.lay(&g, i, maps.Clone(early), l.now); refusal != nil {
				return Grant{}, refusal
			}
		}
	}
	for _, c := range r.Containers {
		if c.Phase == model.Init && c.Part.Kind == model.Share && !l.holds(g) {
			return Grant{}, l.refuse(c, 0)
		}
	}
	return g, nil
}

// layer lays parts on devices.
type layer struct {
	r       *model.Request
	v       ledger.View
	allowed model.Mask
	worth   Worth
	// now is the usage of devices this request has touched.
	now map[int]ledger.Usage
}

func (l *layer) at(usage map[int]ledger.Usage, slot int) ledger.Usage {
	if u, ok := usage[slot]; ok {
		return u
	}
	return l.v.Usage(slot)
}

// lay gives a container its devices: each share on a different device, slices where
// they cost least of what could still be cut. Init containers prefer devices that the
// pod uses later anyway.
func (l *layer) lay(g *Grant, container int, usage, later map[int]ledger.Usage) *explain.Refusal {
	c := l.r.Containers[container]
	var taken model.Mask
	for n := range c.Count {
		slot, start := l.choose(c.Part, usage, later, taken)
		if slot < 0 {
			return l.refuse(c, n)
		}
		granted := GrantedPart{Container: container, Slot: slot, Part: c.Part, Start: start}
		if c.Part.Kind == model.Share {
			taken = taken.With(slot)
			granted.Memory = c.Part.MemoryOn(&l.v.Node.Devices[slot])
		}
		usage[slot] = l.v.With(slot, l.at(usage, slot), c.Part, start)
		g.Set = g.Set.With(slot)
		g.Parts = append(g.Parts, granted)
	}
	return nil
}

// choose picks the device for a part: the one that loses the least value (if there is a
// valuation), for a slice the one where the cut costs least of what could still be cut,
// then the fullest device, or the emptiest for Spread; among equally full ones the
// least busy; among equals the lowest slot.
func (l *layer) choose(p model.Part, usage, later map[int]ledger.Usage, taken model.Mask) (best, start int) {
	best = -1
	var bestRank [5]int
	for slot := range (l.allowed &^ taken).Slots() {
		u := l.at(usage, slot)
		s, ok := l.v.Fits(slot, u, p)
		if !ok || !computeAllows(u, p) {
			continue
		}
		left := l.v.Left(slot, u)
		rank := [5]int{0, 0, l.cost(slot, u, p, s), left, 0}
		if _, reused := later[slot]; !reused && later != nil {
			rank[0] = 1
		}
		if p.Kind == model.Share {
			rank[4] = busyness(l.v.Telemetry(slot))
		}
		switch {
		case l.r.Placement == model.Spread && p.Kind == model.Share:
			rank[3] = -left
		case l.r.Placement == model.Auto && l.worth != nil:
			rank[1] = int(l.worth(left) - l.worth(l.v.Left(slot, l.v.With(slot, u, p, s))))
		}
		if best < 0 || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, start, bestRank = slot, s, rank
		}
	}
	return best, start
}

// busyness is a device's utilization in steps of ten percent, so that noise does not
// change the choice. A device without a measurement is in the middle.
func busyness(t model.Telemetry) int {
	if !t.Utilization.Known {
		return 5
	}
	return t.Utilization.Value / 10
}

// computeAllows: a share of all compute needs the device alone, and a share without a
// stated amount needs some compute to be left.
func computeAllows(u ledger.Usage, p model.Part) bool {
	if p.Kind != model.Share {
		return true
	}
	return u.Milli < model.FullMilli && (p.Milli < model.FullMilli || u.Tenants == 0)
}

// cost is what a cut takes from what could still be cut.
func (l *layer) cost(slot int, u ledger.Usage, p model.Part, start int) int {
	if p.Kind != model.Slice {
		return 0
	}
	g := l.v.Cuts(slot)
	return g.Worth(u.Cut) - g.Worth(l.v.With(slot, u, p, start).Cut)
}

// refuse says why a container's n-th device could not be found.
func (l *layer) refuse(c model.Container, n int) *explain.Refusal {
	return &explain.Refusal{
		Code: explain.Taken, Need: int64(l.r.Distinct()), Best: int64(n), Devices: l.v.Devices(l.r.Vendor).Count(), Detail: spell(c.Part),
	}
}

// spell is a part in words.
func spell(p model.Part) string {
	switch {
	case p.Kind == model.Slice:
		return "room for MIG " + p.Profile
	case p.Turn:
		return "a turn free"
	case p.MemoryMilli > 0:
		return fmt.Sprintf("%s of memory and %d%% of compute free", percent(p.MemoryMilli), p.Milli/10)
	case p.Milli == 0:
		return fmt.Sprintf("%d MiB free", p.Memory)
	}
	return fmt.Sprintf("%d MiB and %d%% of compute free", p.Memory, p.Milli/10)
}

// percent spells thousandths: 250 is 25%, 125 is 12.5%.
func percent(milli int) string {
	if milli%10 == 0 {
		return fmt.Sprintf("%d%%", milli/10)
	}
	return fmt.Sprintf("%d.%d%%", milli/10, milli%10)
}

// everFits says whether a device could take the largest part of a request if it
// were empty.
func everFits(r *model.Request, v ledger.View, slot int) bool {
	d := &v.Node.Devices[slot]
	for _, c := range r.Containers {
		switch {
		case c.Count == 0:
		case c.Part.Kind == model.Slice:
			if g := v.Cuts(slot); g == nil || g.Find(c.Part.Profile) < 0 {
				return false
			}
		case c.Part.Kind == model.Share:
			if c.Part.MemoryOn(d) > d.Memory || c.Part.MemoryMilli > 0 && d.Memory == 0 || c.Part.Turn && d.Tenants == 0 || !c.Part.Turn && d.NoAmounts {
				return false
			}
		}
	}
	return true
}
