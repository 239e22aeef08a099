package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// holding is a bound pod that occupies devices.
type holding struct {
	pod   Pod
	since time.Time
	// claims are the devices it holds; nil when they are unknown: of a pod bound by
	// hand without a record, or onto a device that was held.
	claims map[deviceKey]use
}

// unknown is how many devices of its node it holds without saying which.
func (h *holding) unknown() int {
	if h.claims != nil {
		return 0
	}
	return h.pod.Ask.devices()
}

// conflict is one device that a pod was bound to although others held it.
type conflict struct {
	device deviceKey
	why    string
	others []*holding
}

// conflicts are the devices of the claims that hold others in a way that does not go
// together, without h itself.
func (c *Checker) conflicts(h *holding) []conflict {
	var found []conflict
	for key, u := range h.claims {
		others := c.holdersOf(key, h.pod.UID)
		if len(others) == 0 {
			continue
		}
		if why := c.collide(key, u, others); why != "" {
			found = append(found, conflict{key, why, others})
		}
	}
	slices.SortFunc(found, func(a, b conflict) int { return strings.Compare(a.device.String(), b.device.String()) })
	return found
}

func (c *Checker) holdersOf(key deviceKey, but string) []*holding {
	var list []*holding
	for uid := range c.byDevice[key] {
		if uid != but {
			list = append(list, c.holdings[uid])
		}
	}
	slices.SortFunc(list, func(a, b *holding) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return list
}

// collide says why a use cannot be beside the others on a device; empty if it can.
func (c *Checker) collide(key deviceKey, u use, others []*holding) string {
	d := c.facts.Nodes[key.node].Devices[key.index]
	sum := u
	for _, o := range others {
		v := o.claims[key]
		switch {
		case u.whole || v.whole:
			return fmt.Sprintf("%s beside %s", u, v)
		case (u.slices != 0) != (v.slices != 0):
			return fmt.Sprintf("%s beside %s", u, v)
		case u.slices&v.slices != 0:
			return fmt.Sprintf("slices overlap: %08b and %08b", u.slices, v.slices)
		}
		sum = sum.plus(v)
	}
	if sum.mib > d.MemoryMiB {
		return fmt.Sprintf("shares of %d MiB on a device of %d MiB", sum.mib, d.MemoryMiB)
	}
	if sum.milli > 1000 {
		return fmt.Sprintf("shares of %d thousandths of the compute", sum.milli)
	}
	return ""
}

// overbooked says by how much the node is given out beyond its devices when pods
// with unknown devices are counted, if h is what takes it there: h opens a device
// that no other pod holds.
func (c *Checker) overbooked(h *holding) (string, bool) {
	node := h.pod.Node
	used, unknown := map[deviceKey]bool{}, 0
	for _, o := range c.holdings {
		if o.pod.Node != node {
			continue
		}
		unknown += o.unknown()
		for key := range o.claims {
			used[key] = true
		}
	}
	opens := h.unknown() > 0
	for key := range h.claims {
		opens = opens || len(c.byDevice[key]) == 1
	}
	total := len(c.facts.Nodes[node].Devices)
	if unknown == 0 || !opens || len(used)+unknown <= total {
		return "", false
	}
	return fmt.Sprintf("node %s has %d devices: %d are held by record and %d without", node, total, len(used), unknown), true
}

// bind counts a pod's devices and judges the binding.
func (c *Checker) bind(now time.Time, p Pod) {
	h := &holding{pod: p, since: now}
	c.holdings[p.UID] = h
	claims, err := c.facts.claimsOf(p)
	switch {
	case p.Ask.devices() == 0:
		return
	case err == nil:
		h.claims = claims
	case !p.Hand:
		c.breach(now, Breach{Kind: BadRecord, Text: fmt.Sprintf("pod %s bound to %s: %v", p.Name, p.Node, err), Pods: []string{p.Name}})
	}
	conflicts := c.conflicts(h)
	if len(conflicts) > 0 && p.Hand {
		c.handConflicts++
		h.claims, conflicts = nil, nil // the fault's own doing
	}
	for key := range h.claims {
		if c.byDevice[key] == nil {
			c.byDevice[key] = map[string]bool{}
		}
		c.byDevice[key][p.UID] = true
	}
	if p.Hand {
		return
	}
	c.judgeConflicts(now, h, conflicts)
	c.judgeNode(now, h)
	c.judgeLimits(now, p)
}

// judgeConflicts reports a double booking, unless the other pod was bound by hand so
// shortly before that no scheduler could know.
func (c *Checker) judgeConflicts(now time.Time, h *holding, conflicts []conflict) {
	var devices, whys []string
	others := map[string]*holding{}
	for _, x := range conflicts {
		if c.racesWithHand(now, x.others) {
			c.handRaces++
			continue
		}
		devices = append(devices, x.device.String())
		var holders []string
		for _, o := range x.others {
			others[o.pod.Name] = o
			holders = append(holders, fmt.Sprintf("%s for %s", o.pod.Name, now.Sub(o.since).Round(time.Millisecond)))
		}
		whys = append(whys, fmt.Sprintf("%s (%s), held by %s", x.device, x.why, strings.Join(holders, ", ")))
	}
	if len(devices) == 0 {
		return
	}
	pods := append([]string{h.pod.Name}, sorted(others)...)
	b := c.breach(now, Breach{
		Kind: DoubleBooking, Pods: pods, Devices: devices,
		Text: fmt.Sprintf("pod %s was bound to devices that are held: %s", h.pod.Name, strings.Join(whys, "; ")),
	})
	d := &double{breach: b, later: h.pod.UID}
	for _, o := range others {
		d.others = append(d.others, o.pod.UID)
	}
	c.doubles = append(c.doubles, d)
}

func (c *Checker) racesWithHand(now time.Time, others []*holding) bool {
	return !slices.ContainsFunc(others, func(o *holding) bool {
		return !o.pod.Hand || now.Sub(o.since) > c.limits.HandRace
	})
}

func (c *Checker) judgeNode(now time.Time, h *holding) {
	text, over := c.overbooked(h)
	if !over {
		return
	}
	pods := []string{h.pod.Name}
	for _, o := range c.holdings {
		if o.pod.Node == h.pod.Node && o.unknown() > 0 && o != h {
			if now.Sub(o.since) <= c.limits.HandRace {
				c.handRaces++
				return
			}
			pods = append(pods, o.pod.Name)
		}
	}
	slices.Sort(pods[1:])
	c.breach(now, Breach{Kind: Overbooked, Text: text + "; the last was " + h.pod.Name, Pods: pods})
}

// release forgets what a pod held.
func (c *Checker) release(now time.Time, uid string) {
	h := c.holdings[uid]
	if h == nil {
		return
	}
	for key := range h.claims {
		delete(c.byDevice[key], uid)
	}
	delete(c.holdings, uid)
	c.endDoubles(now, uid)
}
