package device

import (
	"context"
	"errors"
)

// Errors that a back end returns, wrapped with what it tried.
var (
	// ErrNoDriver: there is no driver to talk to. The agent says so, publishes that
	// the node has no usable devices, and tries again.
	ErrNoDriver = errors.New("no GPU driver")
	// ErrNotSupported: the hardware or the driver cannot do it; a retry does not help.
	ErrNotSupported = errors.New("not supported")
	// ErrBusy: a process uses the device or the instance. A retry may help.
	ErrBusy = errors.New("in use")
	// ErrNotFound: no such device or instance.
	ErrNotFound = errors.New("not found")
	// ErrTimeout: the driver did not answer in time. The call may still be running; the
	// back end does not start another one on the same device until it returns.
	ErrTimeout = errors.New("the driver does not answer")
)

// Backend is the hardware of one node. All methods may be called at the same time; each
// returns within the context's deadline, with ErrTimeout where the driver hangs.
type Backend interface {
	// Inventory reads what is built in and how it is cut at the moment.
	Inventory(ctx context.Context) (*Inventory, error)
	// Sample reads the telemetry of every device, in the inventory's order. A value that
	// a device cannot report is absent; a device that fails altogether has Err set, and
	// the others are still sampled.
	Sample(ctx context.Context) ([]Sample, error)
	// Watch calls report for each event until the context ends, then returns nil. An
	// error means that events can no longer be received; the agent calls it again after
	// a pause and treats all devices as unwatched meanwhile.
	Watch(ctx context.Context, report func(Event)) error
	// Edits are what a container needs to use the given devices or MIG instances (by
	// UUID).
	Edits(ctx context.Context, uuids []string) (Edits, error)

	// SetMIG turns MIG mode of a device on or off. The device must be idle.
	SetMIG(ctx context.Context, uuid string, on bool) error
	// CreateInstance cuts a MIG instance (GPU instance with one compute instance over all
	// of it) with a profile at a memory slice, exactly there or not at all.
	CreateInstance(ctx context.Context, uuid string, profileID, start int) (Instance, error)
	// DestroyInstance removes an instance with its compute instances; ErrBusy when a
	// process uses it.
	DestroyInstance(ctx context.Context, uuid string, gpuInstance int) error
	// Reset resets an idle device. Needs CAP_SYS_ADMIN on the node.
	Reset(ctx context.Context, uuid string) error

	// Close ends the use of the driver.
	Close() error
}
