package health

// Verdict is what the driver says a device needs (NVML's recovery action).
type Verdict string

// The verdicts. Others may come with newer drivers.
const (
	// VerdictUnknown: the driver gives none.
	VerdictUnknown     Verdict = ""
	VerdictNone        Verdict = "NONE"
	VerdictReset       Verdict = "GPU_RESET"
	VerdictReboot      Verdict = "NODE_REBOOT"
	VerdictDrainP2P    Verdict = "DRAIN_P2P"
	VerdictDrainReset  Verdict = "DRAIN_AND_RESET"
	VerdictRecoverIMEX Verdict = "RECOVER_IMEX_DOMAIN"
)

// Event is something that happened to the device: exactly one of the fields' meanings,
// by Kind.
type Event struct {
	Kind EventKind
	// XID is the driver's error number, for XIDEvent.
	XID int
	// Tenants used the device when it happened, for XIDEvent; a tenant is what the caller
	// says it is (a namespace). Empty when unknown: then no tenant
	// can be blamed, and an application's error counts for nothing.
	Tenants []string
	// Verdict is for VerdictEvent.
	Verdict Verdict
}

// EventKind is what happened.
type EventKind int

// The kinds.
const (
	// XIDEvent: the driver reported an error.
	XIDEvent EventKind = iota + 1
	// MemoryEvent: a memory error that could not be corrected.
	MemoryEvent
	// VerdictEvent: the driver changed its verdict.
	VerdictEvent
	// LostEvent: the device is gone from the driver.
	LostEvent
	// UnwatchedEvent: from now on no events can be received.
	UnwatchedEvent
	// WatchedEvent: events are received again.
	WatchedEvent
	// ResetEvent: the device was reset with success.
	ResetEvent
	// RebootEvent: the node was rebooted, or the driver loaded anew, since the last input.
	RebootEvent
)

// Unknown is the value of a measurement that a device does not report.
const Unknown = -1

// Sample is what was measured on the device. A measurement that is Unknown says nothing:
// a cause that it would show neither begins nor ends.
type Sample struct {
	// Silent: the driver did not answer; Lost: it answered that there is no such device.
	// The rest counts only when both are false.
	Silent, Lost bool
	Verdict      Verdict
	// Temperature is in degrees Celsius.
	Temperature int
	// HardwareThrottle: 1 while the hardware itself holds clocks down (heat, power
	// brake), else 0.
	HardwareThrottle int
	// RemapPending, RemapFailed and RetiredPending are 0 or 1.
	RemapPending, RemapFailed, RetiredPending int
	// Uncorrected is the number of uncorrected memory errors since the last reset.
	Uncorrected int64
	// Energy is a counter that begins anew with the driver or a reset, any unit.
	Energy int64
	// Links is the number of NVLinks that are up. Unknown too where links are down by
	// intention (MIG).
	Links int
	// Lanes is the present width of the PCIe link, MaxLanes the most it can be.
	Lanes, MaxLanes int
}

// Blank is a sample of a device that answered and reported nothing else.
func Blank() Sample {
	return Sample{Temperature: Unknown, HardwareThrottle: Unknown, RemapPending: Unknown, RemapFailed: Unknown,
		RetiredPending: Unknown, Uncorrected: Unknown, Energy: Unknown, Links: Unknown, Lanes: Unknown, MaxLanes: Unknown}
}
