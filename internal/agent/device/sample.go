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

// Field is one number that devices report.
type Field int

// The fields, with their units.
const (
	Utilization           Field = iota // percent of time in which a kernel ran
	MemoryUtilization                  // percent of time in which memory was read or written
	EncoderUtilization                 // percent
	DecoderUtilization                 // percent
	MemoryUsed                         // MiB
	MemoryFree                         // MiB
	MemoryReserved                     // MiB, by the driver
	Temperature                        // degrees Celsius
	MemoryTemperature                  // degrees Celsius
	Power                              // watts
	PowerLimit                         // watts
	Energy                             // millijoules since the driver was loaded
	SMClock                            // MHz
	MemoryClock                        // MHz
	PCIeReplays                        // count
	PCIeGeneration                     // now
	PCIeLanes                          // now
	NVLinkBandwidth                    // bytes moved, all links together, both ways; a counter
	NVLinkErrors                       // CRC, replay and recovery errors of all links, count
	NVLinksActive                      // links that are up
	ECCCorrected                       // volatile, count
	ECCUncorrected                     // volatile, count
	ECCCorrectedTotal                  // aggregate, count
	ECCUncorrectedTotal                // aggregate, count
	RetiredPagesSingle                 // count
	RetiredPagesDouble                 // count
	RetiredPagesPending                // 0 or 1
	RemappedCorrectable                // rows
	RemappedUncorrectable              // rows
	RemapPending                       // 0 or 1
	RemapFailed                        // 0 or 1
	ClockEventReasons                  // NVML's bit mask
	LastXID                            // number of the last XID error, 0 for none; kept by the agent
	fieldCount
)

// Fields lists all of them.
func Fields() []Field {
	out := make([]Field, fieldCount)
	for i := range out {
		out[i] = Field(i)
	}
	return out
}

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
