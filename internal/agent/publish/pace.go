package publish

import (
	"math"
	"time"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// How often telemetry is written. Scores use it in steps of this size, so finer changes
// are not worth a write; and what is not renewed counts as unknown after 15 minutes.
const (
	// telemetryEvery is the default of Options.TelemetryEvery; up to a fifth is added.
	// After an agent's first write it may be less.
	telemetryEvery = 10 * time.Second
	// heartbeatFrom and heartbeatTo bound the time after which telemetry is written
	// though nothing moved, unless Options.Heartbeat says otherwise. The first time it is anything up to heartbeatTo, so that
	// agents that started together spread.
	heartbeatFrom = 4 * time.Minute
	heartbeatTo   = 5 * time.Minute
)

// What counts as moved.
const (
	utilizationMoves = 10 // percent points
	memoryMoves      = 5  // percent of the device's memory
	temperatureMoves = 5  // degrees Celsius
	powerMoves       = 10 // percent of the power limit, or of what was written
	leastPowerMove   = 10 // watts, where no limit is known
)

// reading is the telemetry of one device that a GPUNode has; -1 for a value that is not
// known.
type reading struct {
	utilization, temperature, power int32
	memory                          int64
	// powerLimit is in watts and not published.
	powerLimit float64
}

var unmeasured = reading{utilization: -1, temperature: math.MinInt32, power: -1, memory: -1}

// readingOf is what was last measured on a device.
func readingOf(s *state, uuid string) reading {
	out, sample := unmeasured, s.samples[uuid]
	if sample == nil || sample.Err != nil {
		return out
	}
	value := func(f device.Field) (float64, bool) {
		v, ok := sample.Values[f]
		return v, ok && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	if v, ok := value(device.Utilization); ok {
		out.utilization = int32(math.Round(min(max(0, v), 100)))
	}
	if v, ok := value(device.MemoryUsed); ok {
		out.memory = int64(min(max(0, v), maxMemoryMiB))
	}
	if v, ok := value(device.Temperature); ok {
		out.temperature = int32(math.Round(min(max(-273, v), 10_000)))
	}
	if v, ok := value(device.Power); ok {
		out.power = int32(math.Round(min(max(0, v), 1_000_000)))
	}
	if v, ok := value(device.PowerLimit); ok && v > 0 {
		out.powerLimit = v
	}
	return out
}

// write puts what is known into a status.
func (r reading) write(s *v1alpha1.DeviceStatus) {
	if r.utilization >= 0 {
		s.UtilizationPercent = &r.utilization
	}
	if r.memory >= 0 {
		s.MemoryUsedMiB = &r.memory
	}
	if r.temperature > math.MinInt32 {
		s.TemperatureCelsius = &r.temperature
	}
	if r.power >= 0 {
		s.PowerWatts = &r.power
	}
}

// movedFrom says whether a reading differs noticeably from the one that was written.
// memoryMiB is the device's.
func (r reading) movedFrom(was reading, memoryMiB int64) bool {
	if (r.utilization < 0) != (was.utilization < 0) || (r.memory < 0) != (was.memory < 0) || (r.power < 0) != (was.power < 0) ||
		(r.temperature == math.MinInt32) != (was.temperature == math.MinInt32) {
		return true
	}
	power := max(leastPowerMove, float64(was.power)*powerMoves/100)
	if r.powerLimit > 0 {
		power = r.powerLimit * powerMoves / 100
	}
	return apart(r.utilization, was.utilization) >= utilizationMoves ||
		apart(r.memory, was.memory)*100 >= memoryMoves*max(1, memoryMiB) ||
		apart(r.temperature, was.temperature) >= temperatureMoves ||
		float64(apart(r.power, was.power)) >= power
}

func apart[N int32 | int64](a, b N) int64 {
	if a > b {
		return int64(a) - int64(b)
	}
	return int64(b) - int64(a)
}
