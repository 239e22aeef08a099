package score

import (
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// The objectives that depend on measurements, each the mean over devices; devices without a
// measurement count as neutral. Utilization and memory are those of the chosen devices,
// whose other users compete with the request. Temperature and power are those of all the
// node's devices of the vendor, because they share air and power supply.

func liveUtilization(_ *model.Request, v ledger.View, set model.Mask) int {
	return mean(set, func(slot int) int { return idle(v.Telemetry(slot).Utilization, 100) })
}

func liveMemory(_ *model.Request, v ledger.View, set model.Mask) int {
	return mean(set, func(slot int) int {
		return idle(v.Telemetry(slot).MemoryUsed, int(v.Node.Devices[slot].Memory))
	})
}

func temperature(r *model.Request, v ledger.View, _ model.Mask) int {
	return mean(v.Devices(r.Vendor), func(slot int) int { return coolness(v.Telemetry(slot).Temperature) })
}

func power(r *model.Request, v ledger.View, _ model.Mask) int {
	return mean(v.Devices(r.Vendor), func(slot int) int {
		return idle(v.Telemetry(slot).Power, BoardPower(v.Node.Devices[slot].Model))
	})
}

// mean is the mean of a score over devices.
func mean(set model.Mask, score func(slot int) int) int {
	if set == 0 {
		return neutral
	}
	sum := 0
	for slot := range set.Slots() {
		sum += score(slot)
	}
	return sum / set.Count()
}

// idle is the part of a limit that is not used, 0..100.
func idle(used model.Reading, limit int) int {
	if !used.Known || limit <= 0 {
		return neutral
	}
	return 100 - 100*min(max(used.Value, 0), limit)/limit
}

// coolCelsius and below counts as fully cool; at hotCelsius data center GPUs throttle.
const (
	coolCelsius = 40
	hotCelsius  = 90
)

// coolness falls from 100 at coolCelsius to 0 at hotCelsius.
func coolness(t model.Reading) int {
	if !t.Known {
		return neutral
	}
	return 100 * (hotCelsius - min(max(t.Value, coolCelsius), hotCelsius)) / (hotCelsius - coolCelsius)
}
