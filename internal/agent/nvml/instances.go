//go:build cgo && linux

package nvml

import (
	"maps"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// sampleInstances reads what can be told apart by MIG instance: memory. The memory of an
// instance that no process uses does not change, and the driver needs a millisecond to say it,
// so it is read once.
//
// Utilization is not among it. NVML has it from a performance monitor only. On an H200
// (driver 580.159.04) a question to that took 30 to 160 ms of a core, and of seven
// instances at full work it took four for idle: a wrong number is worse than none.
func (b *Backend) sampleInstances(r *reader, g *gpu, devices []migDevice, processes []device.Process) map[string]map[device.Field]float64 {
	used := map[string]bool{}
	for _, p := range processes {
		used[p.Instance] = true
	}
	out, idle := map[string]map[device.Field]float64{}, map[string]map[device.Field]float64{}
	for _, m := range devices {
		values, ok := g.idle[m.uuid]
		if used[m.uuid] || !ok {
			values = map[device.Field]float64{}
			readMemory(r, m.handle, values)
		}
		if len(values) == 0 {
			g.forgetCuts() // the handle may be of an instance that is gone
			continue
		}
		out[m.uuid] = maps.Clone(values)
		if !used[m.uuid] {
			idle[m.uuid] = values
		}
	}
	g.idle = idle
	return out
}
