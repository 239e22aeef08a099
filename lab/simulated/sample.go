package simulated

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// NVML's bits of clock event reasons, by the words of samples.
var reasonBits = map[string]uint64{
	"sw-power-cap": 0x4, "hw-slowdown": 0x8, "sw-thermal-slowdown": 0x20, "hw-thermal-slowdown": 0x40, "hw-power-brake-slowdown": 0x80,
}

// reasonIdle is NVML's bit of a device that clocks down because it has nothing to do.
const reasonIdle = 0x1

// Software slows down so many degrees before hardware does.
const softSlowdown = 5

// flutter is how far utilization strays from what the model says, in percent of it, and
// flutterTime for how long it stays there.
const (
	flutter     = 4
	flutterTime = 5 * time.Second
)

// sample is what the device reports; the caller has moved it to now.
func (g *gpu) sample(now time.Time, h fleet.Hardware, seed uint64) device.Sample {
	s := device.Sample{UUID: g.UUID, At: now}
	switch {
	case g.trouble.gone:
		s.Err = g.lost()
		return s
	case g.trouble.hang:
		s.Err = fmt.Errorf("device %d: %w", g.Index, device.ErrTimeout)
		return s
	}
	s.Recovery = g.trouble.recovery
	s.Throttle = g.throttled(h)

	utilization := g.utilization(now, seed)
	clock, reasons := g.clock(h, s.Throttle)
	reserved := reservedMiB(g.MemoryMiB)
	used := memory(g.uses, g.MemoryMiB-reserved)
	s.Values = map[device.Field]float64{
		device.Utilization:           math.Round(100 * utilization),
		device.MemoryUtilization:     math.Round(60 * utilization),
		device.EncoderUtilization:    0,
		device.DecoderUtilization:    0,
		device.MemoryUsed:            float64(used),
		device.MemoryFree:            float64(g.MemoryMiB - reserved - used),
		device.MemoryReserved:        float64(reserved),
		device.Temperature:           math.Round(g.moved.heat),
		device.MemoryTemperature:     math.Round(g.moved.heat + 6),
		device.Power:                 math.Round(10*g.moved.power) / 10,
		device.PowerLimit:            h.MaxWatts,
		device.Energy:                math.Round(1000 * g.moved.energy),
		device.SMClock:               clock,
		device.MemoryClock:           h.MemoryClock,
		device.PCIeReplays:           0,
		device.PCIeGeneration:        float64(g.PCIeGen),
		device.PCIeLanes:             float64(g.PCIeWidth),
		device.ECCCorrected:          0,
		device.ECCUncorrected:        float64(g.counters.eccVolatile),
		device.ECCCorrectedTotal:     0,
		device.ECCUncorrectedTotal:   float64(g.counters.eccTotal),
		device.RemappedCorrectable:   0,
		device.RemappedUncorrectable: float64(g.counters.remapped),
		device.RemapPending:          oneIf(g.trouble.remapPending),
		device.RemapFailed:           oneIf(g.trouble.remapFailed),
		device.ClockEventReasons:     float64(reasons),
	}
	if g.nvlinks > 0 {
		up := g.nvlinks - g.trouble.linksDown
		s.Values[device.NVLinksActive] = float64(up)
		s.Values[device.NVLinkErrors] = float64(g.counters.linkErrors)
		s.Values[device.NVLinkBandwidth] = math.Round(g.moved.work * bytesPerSecond * float64(g.nvlinks))
	}
	if len(g.instances) > 0 {
		s.Instances = g.instanceValues()
	}
	return s
}

// bytesPerSecond is what a busy device moves over each NVLink.
const bytesPerSecond = 4e9

// reservedMiB is the memory that a driver keeps for itself.
func reservedMiB(total int64) int64 { return min(total, 256+total/256) }

// utilization flutters around the model's value, as real ones do; idle is idle.
func (g *gpu) utilization(now time.Time, seed uint64) float64 {
	turn := strconv.FormatInt(now.UnixNano()/int64(flutterTime), 36)
	stray := (2*unit(hash(seed, g.UUID, turn)) - 1) * flutter / 100
	return min(1, max(0, g.moved.utilization*(1+stray)))
}

// throttled are the reasons for which clocks are held down: those of faults, and heat.
func (g *gpu) throttled(h fleet.Hardware) []string {
	reasons := slices.Clone(g.trouble.throttle)
	add := func(word string) {
		if !slices.Contains(reasons, word) {
			reasons = append(reasons, word)
		}
	}
	switch {
	case g.moved.heat >= h.SlowdownCelsius:
		add("hw-slowdown")
		add("hw-thermal-slowdown")
	case g.moved.heat >= h.SlowdownCelsius-softSlowdown:
		add("sw-thermal-slowdown")
	}
	slices.Sort(reasons)
	return reasons
}

// clock is the clock of the multiprocessors in MHz and NVML's mask of reasons for it.
func (g *gpu) clock(h fleet.Hardware, throttle []string) (mhz float64, reasons uint64) {
	if target(g.uses) == 0 && g.moved.utilization < 0.005 {
		mhz, reasons = h.IdleClock, reasonIdle
	} else {
		mhz = h.MaxClock
	}
	for _, word := range throttle {
		reasons |= reasonBits[word]
		if word == "hw-slowdown" || word == "hw-thermal-slowdown" {
			mhz = min(mhz, math.Round(h.MaxClock/2))
		} else {
			mhz = min(mhz, math.Round(h.MaxClock*0.8))
		}
	}
	return mhz, reasons
}

// instanceValues are what can be told apart by MIG instance.
func (g *gpu) instanceValues() map[string]map[device.Field]float64 {
	slices := 1
	for _, p := range g.MIG.Profiles {
		slices = max(slices, p.ComputeSlices)
	}
	// What runs on the device has come this far towards what it asks for.
	progress := 0.0
	if t := target(g.uses); t > 0 {
		progress = g.moved.utilization / t
	}
	values := map[string]map[device.Field]float64{}
	for _, i := range g.instances {
		var own []Use
		for _, u := range g.uses {
			if u.on(i) {
				own = append(own, u)
			}
		}
		compute := max(1, g.profile(i.ProfileID).ComputeSlices)
		used := memory(own, i.MemoryMiB)
		values[i.UUID] = map[device.Field]float64{
			device.Utilization: math.Round(min(100, 100*target(own)*progress*float64(slices)/float64(compute))),
			device.MemoryUsed:  float64(used),
			device.MemoryFree:  float64(i.MemoryMiB - used),
		}
	}
	return values
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
