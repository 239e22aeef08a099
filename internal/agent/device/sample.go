package device

import "time"

// Sample is what one device measured at one time.
type Sample struct {
	UUID string
	At   time.Time
	// Values holds what the device reports; what it does not is absent.
	Values map[Field]float64
	// Throttle are the reasons for which clocks are held down now, such as
	// "hw-thermal-slowdown"; idle and user limits are not among them.
	Throttle []string
	// Recovery is the driver's own verdict on what the device needs; empty for nothing.
	Recovery Recovery
	// Processes are those that use the device.
	Processes []Process
	// Instances are the values that can be told apart by MIG instance, by its UUID.
	Instances map[string]map[Field]float64
	// Err says why the device could not be sampled; the rest is empty then.
	Err error
}

// Process is a use of a device by one process of the node.
type Process struct {
	// PID is the process id as the node sees it.
	PID int
	// MemoryMiB is what it has allocated on the device; SMPercent its share of the time
	// that SMs were busy, -1 when unknown.
	MemoryMiB int64
	SMPercent int
	// Instance is the UUID of the MIG instance it runs on; empty for the device itself.
	Instance string
}

// Recovery is what the driver says a device needs (NVML's recovery action).
type Recovery string

// The verdicts.
const (
	RecoveryNone          Recovery = ""
	RecoveryReset         Recovery = "GPU_RESET"
	RecoveryReboot        Recovery = "NODE_REBOOT"
	RecoveryDrainP2P      Recovery = "DRAIN_P2P"
	RecoveryDrainAndReset Recovery = "DRAIN_AND_RESET"
	RecoveryIMEX          Recovery = "RECOVER_IMEX_DOMAIN"
	// RecoveryUnknown: the driver is too old to give verdicts. Not the same as none:
	// after an error that wants a reset, only a driver that says none clears the device.
	RecoveryUnknown Recovery = "UNKNOWN"
)
