package simulated

import "github.com/tangram-dev/tangram/internal/agent/device"

// WholeDevice is the Start of a use that runs on no MIG instance.
const WholeDevice = -1

// Use is what one container runs on one device.
type Use struct {
	// Device is the device's index.
	Device int
	// Utilization is how much of the device's compute it keeps busy, in percent.
	Utilization float64
	// MemoryMiB is what it has allocated on the device.
	MemoryMiB int64
	// Start is the memory slice at which its MIG instance begins, or WholeDevice.
	Start int
}

// on says whether the use is of a MIG instance.
func (u Use) on(i device.Instance) bool { return u.Start == i.Start }

// target is the sum of what the uses ask of a device, from 0 to 1.
func target(uses []Use) float64 {
	sum := 0.0
	for _, u := range uses {
		sum += max(0, u.Utilization)
	}
	return min(sum, 100) / 100
}

// memory is the sum of what the uses have allocated, at most limit.
func memory(uses []Use, limit int64) int64 {
	var sum int64
	for _, u := range uses {
		sum = min(limit, sum+max(0, u.MemoryMiB))
	}
	return sum
}
