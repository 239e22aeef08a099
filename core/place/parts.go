package place

import (
	"fmt"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// GrantedPart is a share or slice one container gets of one device.
type GrantedPart struct {
	// Container is the container's position in the request.
	Container int
	Slot      int
	// Part is what it gets; a share's memory in MiB, never in percent.
	Part model.Part
	// Start is the memory slice a slice begins at.
	Start int
}

// Holds are the parts a holder has of devices as long as it lives. Slices are held
// one by one; shares of one device are added up, init containers' only where they
// need more than the others take afterwards.
func (g *Grant) Holds(r *model.Request) []GrantedPart {
	if r.Kind() == model.Slice {
		return g.Parts
	}
	var out []GrantedPart
	for slot := range g.Set.Slots() {
		sum := GrantedPart{Container: -1, Slot: slot, Part: model.Part{Kind: model.Share}}
		for _, p := range g.Parts {
			if p.Slot == slot && r.Containers[p.Container].Phase != model.Init {
				sum.Part.Memory += p.Part.Memory
				sum.Part.Milli += p.Part.Milli
				sum.Part.Turn = p.Part.Turn
			}
		}
		for _, p := range g.Extra {
			if p.Slot == slot {
				sum.Part.Memory += p.Part.Memory
				sum.Part.Milli += p.Part.Milli
			}
		}
		out = append(out, sum)
	}
	return out
}

// fitParts lays shares or slices on the allowed devices. Containers that run
// together add up; an init container's parts count only where they exceed what the
// others take afterwards (Grant.Extra).
func fitParts(r *model.Request, v ledger.View, allowed model.Mask) (Grant, *explain.Refusal) {
	l := layer{r: r, v: v, allowed: allowed, now: map[int]ledger.Usage{}}
	var g Grant
	for i, c := range r.Containers {
		// A slice is an instance: an init container's exists as long as its pod.
		if c.Phase != model.Init || c.Part.Kind == model.Slice {
			if refusal := l.lay(&g, i, l.now, nil); refusal != nil {
				return Grant{}, refusal
			}
		}
	}
	// An init container meets the sidecars started before it and nobody else of its
	// own pod.
	early := map[int]ledger.Usage{}
	peak := map[int]ledger.Usage{}
	for i, c := range r.Containers {
		switch c.Phase {
		case model.Sidecar:
			for _, p := range g.Parts {
				if p.Container == i {
					early[p.Slot] = v.With(p.Slot, l.at(early, p.Slot), p.Part, p.Start)
				}
			}
		case model.Init:
			if c.Part.Kind == model.Slice {
				continue
			}
			during := map[int]ledger.Usage{}
			for slot, u := range early {
				during[slot] = u
			}
			if refusal := l.lay(&g, i, during, l.now); refusal != nil {
				return Grant{}, refusal
			}
			for slot, u := range during {
				p := peak[slot]
				p.Memory, p.Milli = max(p.Memory, u.Memory), max(p.Milli, u.Milli)
				peak[slot] = p
			}
		}
	}
	for slot := range v.Devices(r.Vendor).Slots() {
		p, after := peak[slot], l.at(l.now, slot)
		extra := model.Part{Kind: model.Share, Memory: max(0, p.Memory-after.Memory), Milli: max(0, p.Milli-after.Milli)}
		if extra.Memory > 0 || extra.Milli > 0 {
			g.Extra = append(g.Extra, GrantedPart{Container: -1, Slot: slot, Part: extra})
		}
	}
	return g, nil
}

// layer lays parts on devices.
type layer struct {
	r       *model.Request
	v       ledger.View
	allowed model.Mask
	// now is the usage of devices this request has touched.
	now map[int]ledger.Usage
}

func (l *layer) at(usage map[int]ledger.Usage, slot int) ledger.Usage {
	if u, ok := usage[slot]; ok {
		return u
	}
	return l.v.Usage(slot)
}

// lay gives a container its devices: shares each of another one, slices wherever
// they do least harm. Init containers prefer
// devices the pod uses later anyway.
func (l *layer) lay(g *Grant, container int, usage, later map[int]ledger.Usage) *explain.Refusal {
	c := l.r.Containers[container]
	var taken model.Mask
	for n := range c.Count {
		slot, start := l.choose(c.Part, usage, later, taken)
		if slot < 0 {
			return l.refuse(c, n)
		}
		part := c.Part
		if part.Kind == model.Share {
			part.Memory, part.MemoryPercent = part.MemoryOn(&l.v.Node.Devices[slot]), 0
		}
		if part.Kind == model.Share {
			taken = taken.With(slot)
		}
		usage[slot] = l.v.With(slot, l.at(usage, slot), part, start)
		g.Set = g.Set.With(slot)
		g.Parts = append(g.Parts, GrantedPart{Container: container, Slot: slot, Part: part, Start: start})
	}
	return nil
}

// choose picks the device for a part: for a slice where the cut costs least of
// what could still be cut, for a share the fullest device that has room (binpack)
// or the emptiest (spread); among equals the lowest slot.
func (l *layer) choose(p model.Part, usage, later map[int]ledger.Usage, taken model.Mask) (best, start int) {
	best = -1
	var bestRank [3]int
	for slot := range (l.allowed &^ taken).Slots() {
		u := l.at(usage, slot)
		s, ok := l.v.Fits(slot, u, p)
		if !ok || !polite(u, p) {
			continue
		}
		rank := [3]int{0, l.cost(slot, u, p, s), -l.fullness(slot, u)}
		if _, reused := later[slot]; !reused && later != nil {
			rank[0] = 1
		}
		if p.Kind == model.Share {
			rank[1], rank[2] = rank[2], 0
			if l.r.Placement == model.Spread {
				rank[1] = -rank[1]
			}
		}
		if best < 0 || less(rank, bestRank) {
			best, start, bestRank = slot, s, rank
		}
	}
	return best, start
}

// polite: who wants the whole compute gets the device alone, and who wants none in
// particular still needs some to be left.
func polite(u ledger.Usage, p model.Part) bool {
	if p.Kind != model.Share {
		return true
	}
	return u.Milli < model.FullMilli && (p.Milli < model.FullMilli || u.Tenants == 0)
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// cost is what a cut takes from what could still be cut.
func (l *layer) cost(slot int, u ledger.Usage, p model.Part, start int) int {
	if p.Kind != model.Slice {
		return 0
	}
	g := l.v.Cuts(slot)
	return g.Worth(u.Cut) - g.Worth(l.v.With(slot, u, p, start).Cut)
}

// fullness is how much of a device is used, in thousandths: the larger of memory
// and compute, or of the slices.
func (l *layer) fullness(slot int, u ledger.Usage) int {
	if g := l.v.Cuts(slot); g != nil && u.Cut.Used != 0 {
		return 1000 - 1000*g.Free(u.Cut)/g.Slices()
	}
	full := u.Milli
	if m := l.v.Node.Devices[slot].Memory; m > 0 {
		full = max(full, int(1000*u.Memory/m))
	}
	return full
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
	case p.MemoryPercent > 0:
		return fmt.Sprintf("%d%% of memory and %d%% of compute free", p.MemoryPercent, p.Milli/10)
	case p.Milli == 0:
		return fmt.Sprintf("%d MiB free", p.Memory)
	}
	return fmt.Sprintf("%d MiB and %d%% of compute free", p.Memory, p.Milli/10)
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
			if c.Part.MemoryOn(d) > d.Memory || c.Part.Turn && d.Tenants == 0 {
				return false
			}
		}
	}
	return true
}
