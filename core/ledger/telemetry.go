package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// SetTelemetry replaces what was measured on a node's devices, one entry per device in
// the order of the inventory; nil when nothing was. The ledger keeps the slice.
// Measurements arrive continuously and do not change which device is free: they are not
// part of the version or of buckets, requeue no pod, and are not undone by a rollback.
// They belong to one inventory, so SetNode must come first. Telemetry of another number
// of devices is dropped.
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

// Measured says whether there is telemetry of any node: then nodes of one bucket may
// differ in their scores, though not in what fits.
func (l *Ledger) Measured() bool { return l.measured > 0 }

// Telemetry is what was last measured on a device; its readings are unknown where
// nothing was.
func (v View) Telemetry(slot int) model.Telemetry {
	if v.telemetry == nil {
		return model.Telemetry{}
	}
	return v.telemetry[slot]
}

// AllTelemetry is what was last measured on all devices; nil when nothing was. Not to be changed.
func (v View) AllTelemetry() []model.Telemetry { return v.telemetry }
