package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// SetTelemetry replaces what was measured on a node's devices, one entry per device
// in the order of the inventory; nil when nothing was. The ledger keeps the slice.
// Measurements come all the time and change nobody's right to a device: they are no
// part of the version or of buckets, wake nobody, and setting them is not undone. They go with the
// inventory they were taken of: SetNode first. Telemetry of another number of devices
// is dropped.
func (l *Ledger) SetTelemetry(id model.NodeID, t []model.Telemetry) {
	n := l.nodes[id]
	if n == nil || n.inv == nil {
		return
	}
	if len(t) != len(n.inv.Devices) || !slices.ContainsFunc(t, func(x model.Telemetry) bool { return x != model.Telemetry{} }) {
		t = nil
	}
	if n.telemetry != nil {
		l.measured--
	}
	if n.telemetry = t; t != nil {
		l.measured++
	}
}

// Measured says whether anything was measured on any node: then nodes of one bucket
// may differ in how they are doing, though not in what fits.
func (l *Ledger) Measured() bool { return l.measured > 0 }

// Telemetry is what was last measured on a device; its readings are unknown where
// nothing was.
func (v View) Telemetry(slot int) model.Telemetry {
	if v.telemetry == nil {
		return model.Telemetry{}
	}
	return v.telemetry[slot]
}
