package fleet

import "strings"

// Hardware is what a model's data sheet and driver say beyond what a fleet file sets.
// The figures are those of the common variant; a simulation needs their size, not their
// last digit.
type Hardware struct {
	Brand, Architecture string
	// ComputeCapability is NVIDIA's; empty for other vendors.
	ComputeCapability string
	// PCIDeviceID is device and vendor, such as 0x233510de.
	PCIDeviceID string
	// Driver and CUDA are versions; CUDA is empty for other vendors.
	Driver, CUDA string
	// IdleWatts and MaxWatts are the power draw at rest and the power limit.
	IdleWatts, MaxWatts float64
	// IdleClock and MaxClock are of the multiprocessors, MemoryClock of the memory, MHz.
	IdleClock, MaxClock, MemoryClock float64
	// PCIeGeneration, PCIeLanes and NVLinks are the most the device can do.
	PCIeGeneration, PCIeLanes, NVLinks int
	// SlowdownCelsius is where the hardware halves its clocks.
	SlowdownCelsius float64
	// profileSMs are the multiprocessors of a MIG instance by profile id.
	profileSMs map[int32]int
}

// HardwareOf returns the data sheet of a model; of an unknown one, that of a middling
// card of the vendor.
func HardwareOf(vendor, model string) Hardware {
	if p, ok := findProduct(model); ok {
		return p.hardware
	}
	h := Hardware{
		IdleWatts: 30, MaxWatts: 300, IdleClock: 210, MaxClock: 1700, MemoryClock: 5000,
		PCIeGeneration: 4, PCIeLanes: 16, SlowdownCelsius: 90,
	}
	switch vendor {
	case vendorNVIDIA:
		h.Driver, h.CUDA, h.ComputeCapability, h.PCIDeviceID = nvidiaDriver, nvidiaCUDA, "8.0", "0x200010de"
	case vendorAMD:
		h.Driver, h.PCIDeviceID = amdDriver, "0x740c1002"
	case vendorIntel:
		h.Driver, h.PCIDeviceID = intelDriver, "0x0bd58086"
	}
	return h
}

// ProfileSMs is how many multiprocessors an instance of a MIG profile has; 0 when
// unknown.
func (h Hardware) ProfileSMs(id int32) int { return h.profileSMs[id] }

// ProfileSlices is how many compute slices a MIG profile has: the number that its name
// begins with, as in 3g.40gb; 0 when there is none.
func ProfileSlices(profile string) int {
	digits, _, ok := strings.Cut(profile, "g.")
	if !ok || len(digits) != 1 || digits[0] < '1' || digits[0] > '9' {
		return 0
	}
	return int(digits[0] - '0')
}

// Versions of drivers that simulated nodes report.
const (
	nvidiaDriver = "580.159.03"
	nvidiaCUDA   = "13.0"
	amdDriver    = "6.14.14"
	intelDriver  = "1.6.32224"
)

// Multiprocessors by profile id, as hardware reports them.
var (
	ampereSMs = map[int32]int{19: 14, 20: 14, 15: 14, 14: 28, 9: 42, 5: 56, 0: 98}
	hopperSMs = map[int32]int{19: 16, 20: 16, 15: 26, 14: 32, 9: 60, 5: 64, 0: 132}
	a30SMs    = map[int32]int{14: 14, 5: 28, 0: 56}
)

// nvidia is the part of a data sheet that NVIDIA's models share.
func nvidia(architecture, capability, pciID string) Hardware {
	return Hardware{
		Brand: "NVIDIA", Architecture: architecture, ComputeCapability: capability, PCIDeviceID: pciID,
		Driver: nvidiaDriver, CUDA: nvidiaCUDA, PCIeLanes: 16, SlowdownCelsius: 90,
	}
}

// power sets the watts at rest and at most.
func (h Hardware) power(idle, most float64) Hardware {
	h.IdleWatts, h.MaxWatts = idle, most
	return h
}

// clocks sets multiprocessors' clocks at rest and at most, and memory's, in MHz.
func (h Hardware) clocks(idle, most, memory float64) Hardware {
	h.IdleClock, h.MaxClock, h.MemoryClock = idle, most, memory
	return h
}

// bus sets the PCIe generation and the number of NVLinks.
func (h Hardware) bus(generation, nvlinks int) Hardware {
	h.PCIeGeneration, h.NVLinks = generation, nvlinks
	return h
}

// slices sets the multiprocessors of MIG profiles.
func (h Hardware) slices(sms map[int32]int) Hardware {
	h.profileSMs = sms
	return h
}
