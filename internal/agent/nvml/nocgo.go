//go:build !cgo || !linux

package nvml

import (
	"context"
	"fmt"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// New makes a back end whose calls all fail: the driver can be called only from a program that
// was built with cgo for Linux.
func New(options Options) device.Backend {
	options.withDefaults().Log.Debug("no NVML: built without cgo")
	return none{}
}

var errNoCgo = fmt.Errorf("nvml: built without cgo: %w", device.ErrNoDriver)

// none is a back end without a driver.
type none struct{}

func (none) Inventory(context.Context) (*device.Inventory, error)  { return nil, errNoCgo }
func (none) Sample(context.Context) ([]device.Sample, error)       { return nil, errNoCgo }
func (none) Watch(context.Context, func(device.Event)) error       { return errNoCgo }
func (none) Edits(context.Context, []string) (device.Edits, error) { return device.Edits{}, errNoCgo }
func (none) SetMIG(context.Context, string, bool) error            { return errNoCgo }
func (none) DestroyInstance(context.Context, string, int) error    { return errNoCgo }
func (none) Reset(context.Context, string) error                   { return errNoCgo }
func (none) Close() error                                          { return nil }
func (none) CreateInstance(context.Context, string, int, int) (device.Instance, error) {
	return device.Instance{}, errNoCgo
}
