package device

// EventKind is what happened to a device.
type EventKind string

// The kinds.
const (
	// XID: the driver reported an error; Code is its number.
	XID EventKind = "XID"
	// ECC: a memory error that could not be corrected (double bit).
	ECC EventKind = "ECC"
	// RecoveryChanged: the driver changed its verdict on what the device needs.
	RecoveryChanged EventKind = "RecoveryAction"
	// Unavailable: the device is gone from the driver (fallen off the bus).
	Unavailable EventKind = "Unavailable"
)

// Event is something that happened to a device.
type Event struct {
	Kind EventKind
	// UUID is the device; empty when the driver did not say which: then it is any of
	// them.
	UUID string
	// GPUInstance and ComputeInstance are the MIG instance it happened on, -1 for the
	// device as a whole.
	GPUInstance, ComputeInstance int
	Code                         int
	Recovery                     Recovery
}
