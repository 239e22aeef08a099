package grant

import (
	"fmt"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

// sum is what was promised of one GPU.
type sum struct {
	memory int64
	milli  int
}

// fits refuses a container whose amounts, with those that were promised to others, are more than its GPUs have.
// Containers of one pod that hold the same slot one after the other count with the larger amount.
func fits(inv *device.Inventory, h *records.Holding, all []records.Holding) error {
	type slot struct{ gpu, id string }
	promised := map[slot]sum{}
	note := func(o *records.Holding) {
		for _, g := range pairs(o) {
			s := slot{g.gpu, o.Resource + "/" + g.id}
			promised[s] = sum{max(promised[s].memory, g.memory), max(promised[s].milli, g.milli)}
		}
	}
	for i := range all {
		if o := &all[i]; o.Before(h) || o.Pod != nil && o.Pod.UID == h.Pod.UID {
			note(o)
		}
	}
	note(h)
	total := map[string]sum{}
	for s, p := range promised {
		t := total[s.gpu]
		total[s.gpu] = sum{t.memory + p.memory, t.milli + p.milli}
	}
	for _, g := range pairs(h) {
		d := inv.Find(g.gpu)
		t := total[g.gpu]
		switch {
		case d == nil:
			return fmt.Errorf("%s: device %s is not on this node", h.Resource, g.gpu)
		case g.memory > 0 && t.memory > d.MemoryMiB:
			return fmt.Errorf("%s: %s of pod %s/%s was promised %d MiB of device %d; with what others were promised that is %d MiB of %d",
				h.Resource, h.Path, h.Pod.Namespace, h.Pod.Name, g.memory, d.Index, t.memory, d.MemoryMiB)
		case g.milli > 0 && t.milli > 1000:
			return fmt.Errorf("%s: %s of pod %s/%s was promised %d‰ of device %d's compute; with what others were promised that is %d‰",
				h.Resource, h.Path, h.Pod.Namespace, h.Pod.Name, g.milli, d.Index, t.milli)
		}
	}
	return nil
}

// pair is the amount of one device ID.
type pair struct {
	gpu, id string
	memory  int64
	milli   int
}

func pairs(h *records.Holding) (out []pair) {
	gs := grants(h)
	if len(gs) != len(h.IDs) {
		return nil
	}
	for i, g := range gs {
		if g.MemoryMiB > 0 || g.ComputeMilli > 0 {
			out = append(out, pair{g.UUID, h.IDs[i], g.MemoryMiB, g.ComputeMilli})
		}
	}
	return out
}
