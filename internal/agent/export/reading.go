package export

import (
	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Reading is the last that is known of a device.
type Reading struct {
	Device device.Device
	Health health.Status
	// Sample is shown unless it is too old.
	Sample device.Sample
	// XIDs counts the driver's errors since the agent started, RecentXIDs those within
	// the window, by number.
	XIDs, RecentXIDs map[int]uint64
}

// Holder is a container that holds a device, or a part of one.
type Holder struct{ Namespace, Pod, Container string }

// Sources are where a collector reads. All are called once for each scrape and thing, and
// must answer from memory.
type Sources struct {
	// Driver is the driver's version.
	Driver func() string
	// Readings are the node's devices.
	Readings func() []Reading
	// Holders are the containers that hold a device or a MIG instance, by UUID; nil for unknown.
	Holders func(uuid string) []Holder
	// Process is the container of a process, by its id on the node; false when it is
	// none of a pod's.
	Process func(pid int) (Holder, bool)
}
