package dialect

import (
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
)

// Telemetry is what an agent measured on the devices of an inventory made from its GPUNode; nil when
// it measured nothing, or Inventory ignores the GPUNode.
func Telemetry(inv *model.Node, gn *v1alpha1.GPUNode) []model.Telemetry {
	if gn == nil || len(gn.Status.Devices) == 0 || checkUUIDs(gn) != nil {
		return nil
	}
	var out []model.Telemetry
	for _, s := range gn.Status.Devices {
		t := model.Telemetry{
			Utilization: reading(s.UtilizationPercent), MemoryUsed: reading(s.MemoryUsedMiB),
			Temperature: reading(s.TemperatureCelsius), Power: reading(s.PowerWatts),
		}
		slot := inv.Slot(int(s.Index), s.UUID)
		if slot < 0 || inv.Devices[slot].Index != int(s.Index) || t == (model.Telemetry{}) { // a card that was replaced
			continue
		}
		if out == nil {
			out = make([]model.Telemetry, len(inv.Devices))
		}
		out[slot] = t
	}
	return out
}

func reading[N int32 | int64](value *N) model.Reading {
	if value == nil {
		return model.Reading{}
	}
	return model.Measured(int(*value))
}
