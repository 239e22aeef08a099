//go:build !cgo || !linux

package nvml

import (
	"fmt"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// New fails: the driver can be called only from a program that was built with cgo for
// Linux.
func New(options Options) (device.Backend, error) {
	options.withDefaults().Log.Debug("no NVML: built without cgo")
	return nil, fmt.Errorf("nvml: built without cgo: %w", device.ErrNoDriver)
}
