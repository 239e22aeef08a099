package simulated

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// happened is a fault in effect. A reset repairs some kinds on a device: they stay
// listed, or they would happen again when the same list is set, and count no more.
type happened struct {
	fleet.Fault
	repaired map[int]bool // by device index
}

// trouble is what the faults amount to on one device.
type trouble struct {
	hot                       float64 // degrees Celsius; 0 for no fault
	throttle                  []string
	gone, hang                bool
	recovery                  device.Recovery
	linksDown                 int
	remapPending, remapFailed bool
}

// powerShare is how much of its power a device may draw: clocks that are held down save
// two fifths.
func (t trouble) powerShare() float64 {
	if len(t.throttle) > 0 {
		return 0.6
	}
	return 1
}

// setFaults compares the list with what is in effect, so that a list that is set again
// repeats nothing.
func (n *node) setFaults(list []fleet.Fault) error {
	for _, f := range list {
		if f.Device != fleet.AllDevices && (f.Device < 0 || f.Device >= len(n.gpus)) {
			return fmt.Errorf("fault %s: there are devices 0 to %d: %w", f, len(n.gpus)-1, device.ErrNotFound)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advance(n.options.Clock())
	old := n.faults
	n.faults = nil
	var fresh []fleet.Fault
	for _, f := range list {
		i := slices.IndexFunc(old, func(h happened) bool { return h.Fault == f })
		if i < 0 {
			fresh = append(fresh, f)
			n.faults = append(n.faults, happened{Fault: f, repaired: map[int]bool{}})
			continue
		}
		n.faults = append(n.faults, old[i])
		old = slices.Delete(slices.Clone(old), i, i+1)
	}
	before := n.recoveries()
	n.judge()
	for _, f := range fresh {
		n.happen(f)
	}
	n.tellRecoveries(before)
	close(n.changed)
	n.changed = make(chan struct{})
	return nil
}

// each calls f for the devices that a fault is about.
func (n *node) each(fault fleet.Fault, f func(*gpu)) {
	for _, g := range n.gpus {
		if fault.Device == fleet.AllDevices || fault.Device == g.Index {
			f(g)
		}
	}
}

// judge derives every device's trouble from the faults in effect.
func (n *node) judge() {
	n.noDriver = false
	for _, g := range n.gpus {
		g.trouble = trouble{}
	}
	for _, h := range n.faults {
		n.noDriver = n.noDriver || h.Kind == fleet.FaultNoDriver
		n.each(h.Fault, func(g *gpu) {
			if !h.repaired[g.Index] {
				g.trouble.add(h.Fault)
				g.trouble.linksDown = min(g.trouble.linksDown, g.nvlinks)
			}
		})
	}
	for _, g := range n.gpus {
		g.moved.heat = max(g.moved.heat, g.trouble.hot)
	}
}

func (t *trouble) add(f fleet.Fault) {
	switch f.Kind {
	case fleet.FaultHot:
		t.hot = max(t.hot, float64(f.Number))
	case fleet.FaultThrottle:
		if !slices.Contains(t.throttle, f.Word) {
			t.throttle = append(t.throttle, f.Word)
		}
	case fleet.FaultGone:
		t.gone = true
	case fleet.FaultHang:
		t.hang = true
	case fleet.FaultRecovery:
		t.recovery = device.Recovery(f.Word)
	case fleet.FaultLinkDown:
		t.linksDown += f.Number
	case fleet.FaultRemap:
		t.remapPending = t.remapPending || f.Word == "pending"
		t.remapFailed = t.remapFailed || f.Word == "failed"
	case fleet.FaultXID, fleet.FaultECC, fleet.FaultNoDriver:
		// They happen once, or to the node.
	}
}

// happen does what a new fault does once: count, and tell.
func (n *node) happen(f fleet.Fault) {
	tell := func(e device.Event) {
		e.GPUInstance, e.ComputeInstance = -1, -1
		n.events.put(e)
	}
	if f.Kind == fleet.FaultXID && f.Device == fleet.AllDevices {
		tell(device.Event{Kind: device.XID, Code: f.Number}) // the driver does not say which
		return
	}
	n.each(f, func(g *gpu) {
		switch f.Kind {
		case fleet.FaultXID:
			tell(device.Event{Kind: device.XID, UUID: g.UUID, Code: f.Number})
		case fleet.FaultECC:
			g.counters.eccVolatile += f.Number
			g.counters.eccTotal += f.Number
			tell(device.Event{Kind: device.ECC, UUID: g.UUID})
		case fleet.FaultGone:
			tell(device.Event{Kind: device.Unavailable, UUID: g.UUID})
		case fleet.FaultLinkDown:
			g.counters.linkErrors += f.Number
		default:
		}
	})
}

// recoveries are the actions that the driver demands now, by device.
func (n *node) recoveries() []device.Recovery {
	list := make([]device.Recovery, 0, len(n.gpus))
	for _, g := range n.gpus {
		list = append(list, g.trouble.recovery)
	}
	return list
}

// tellRecoveries reports the demanded actions that changed.
func (n *node) tellRecoveries(before []device.Recovery) {
	for i, g := range n.gpus {
		if g.trouble.recovery != before[i] {
			n.events.put(device.Event{
				Kind: device.RecoveryChanged, UUID: g.UUID, GPUInstance: -1, ComputeInstance: -1, Recovery: g.trouble.recovery,
			})
		}
	}
}

// repair is what a reset does: demanded actions, throttling and pending row remaps of the device
// are over, and its volatile counters begin anew. Heat, dead links and failed remaps
// stay. It needs the lock.
func (n *node) repair(g *gpu) {
	before := n.recoveries()
	if g.trouble.remapPending {
		g.counters.remapped++
	}
	for i, h := range n.faults {
		over := h.Kind == fleet.FaultRecovery || h.Kind == fleet.FaultThrottle || h.Kind == fleet.FaultRemap && h.Word == "pending"
		if over && (h.Device == g.Index || h.Device == fleet.AllDevices) {
			n.faults[i].repaired[g.Index] = true
		}
	}
	g.counters.eccVolatile = 0
	n.judge()
	n.tellRecoveries(before)
}
