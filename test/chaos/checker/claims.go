package checker

import (
	"fmt"
)

// deviceKey is one device of the cluster.
type deviceKey struct {
	node  string
	index int
}

func (k deviceKey) String() string { return fmt.Sprintf("%s/%d", k.node, k.index) }

// use is what one pod takes of one device.
type use struct {
	whole  bool
	turn   bool
	mib    int64
	milli  int
	slices uint64 // a bit per memory slice
}

func (u use) String() string {
	switch {
	case u.whole:
		return "whole"
	case u.slices != 0:
		return fmt.Sprintf("slices %08b", u.slices)
	case u.turn:
		return "turn"
	}
	return fmt.Sprintf("%d MiB, %d milli", u.mib, u.milli)
}

// claimsOf are the devices a pod's record gives it. The error says why the record
// cannot be counted.
func (f Facts) claimsOf(p Pod) (map[deviceKey]use, error) {
	r, err := DecodeRecord(p.Record)
	if err != nil {
		return nil, err
	}
	if r.Node != p.Node {
		return nil, fmt.Errorf("record names node %s, the pod is bound to %s", r.Node, p.Node)
	}
	node, ok := f.Nodes[r.Node]
	if !ok {
		return nil, fmt.Errorf("record names node %s, which the load did not create", r.Node)
	}
	main, peak := map[deviceKey]use{}, map[deviceKey]use{}
	given := 0
	for _, c := range r.Containers {
		for _, h := range c.Devices {
			u, err := node.useOf(h)
			if err != nil {
				return nil, fmt.Errorf("container %s, device %d: %w", c.Name, h.Index, err)
			}
			key := deviceKey{r.Node, h.Index}
			if p.Init[c.Name] { // one after the other, before the others
				peak[key] = peak[key].most(u)
				continue
			}
			given++
			if err := matches(h, p.Ask); err != nil {
				return nil, fmt.Errorf("container %s, device %d: %w", c.Name, h.Index, err)
			}
			main[key] = main[key].plus(u)
		}
	}
	if want := p.Ask.devices(); given != want {
		return nil, fmt.Errorf("record gives %d devices, the pod asks for %d", given, want)
	}
	for key, u := range peak {
		main[key] = main[key].most(u)
	}
	return main, nil
}

// useOf is what a holder takes of the node's device.
func (n Node) useOf(h Holder) (use, error) {
	d, ok := n.Devices[h.Index]
	if !ok {
		return use{}, fmt.Errorf("there is no such device")
	}
	if h.UUID != "" && h.UUID != d.UUID {
		return use{}, fmt.Errorf("uuid %s is %s on the node", h.UUID, d.UUID)
	}
	switch {
	case h.MIG != "":
		size, ok := d.Profiles[h.MIG]
		if !ok || h.Start < 0 || h.Start+size > d.Slices {
			return use{}, fmt.Errorf("slice %s at %d does not exist", h.MIG, h.Start)
		}
		return use{slices: (1<<size - 1) << h.Start}, nil
	case h.isShare():
		return use{mib: h.MemoryMiB, milli: h.ComputeMilli, turn: h.Turn > 0}, nil
	}
	return use{whole: true}, nil
}

// matches says whether a holder is what the pod asks for. A share may be recorded
// with more than was asked for (a default of the vocabulary), never with less.
func matches(h Holder, a Ask) error {
	switch {
	case a.Whole > 0 && (h.isShare() || h.MIG != ""),
		a.Profile != h.MIG,
		a.ShareMiB > h.MemoryMiB, a.ShareMilli > h.ComputeMilli:
		return fmt.Errorf("is not what the pod asks for (%s)", a)
	}
	return nil
}

// plus is two uses at once, most the larger of two uses one after the other.
func (u use) plus(v use) use {
	return use{u.whole || v.whole, u.turn || v.turn, u.mib + v.mib, u.milli + v.milli, u.slices | v.slices}
}

func (u use) most(v use) use {
	return use{u.whole || v.whole, u.turn || v.turn, max(u.mib, v.mib), max(u.milli, v.milli), u.slices | v.slices}
}
