package health

import "time"

// Code names a cause for which a device is not healthy.
type Code string

// The causes, the most severe first; between equal ones the one that tells most about
// what helps.
const (
	RowRemapFailure     Code = "RowRemapFailure"
	OffTheBus           Code = "OffTheBus"
	RebootRequired      Code = "RebootRequired"
	RebootError         Code = "RebootError"
	NoAnswer            Code = "NoAnswer"
	ResetRequired       Code = "ResetRequired"
	ResetError          Code = "ResetError"
	UncorrectedMemory   Code = "UncorrectedMemoryError"
	RowRemapPending     Code = "RowRemapPending"
	RetiredPagesPending Code = "RetiredPagesPending"
	DrainRequired       Code = "DrainRequired"
	FabricRecovery      Code = "FabricRecovery"
	UnknownVerdict      Code = "UnknownVerdict"
	InspectError        Code = "InspectError"
	NVLinkDown          Code = "NVLinkDown"
	PCIeNarrow          Code = "PCIeNarrow"
	Throttled           Code = "Throttled"
	Hot                 Code = "Hot"
	RestartError        Code = "RestartError"
	ApplicationErrors   Code = "ApplicationErrors"
	Unwatched           Code = "Unwatched"
)

// proof is what shows that a cause is gone.
type proof int

const (
	// bySample: each sample shows whether it lasts.
	bySample proof = iota
	// byVerdict: the driver says, after it happened, that the device needs nothing; or
	// the device was reset, or the node rebooted.
	byVerdict
	// byTime: it happened once and lasts no longer than that.
	byTime
)

// rule is what is fixed about a cause.
type rule struct {
	code  Code
	state State
	help  Help
	proof proof
	// quiet is how long the device must be quiet after the cause is gone.
	quiet time.Duration
}

// rules in the order of the codes above.
var rules = []rule{
	{RowRemapFailure, Failed, Replace, bySample, 30 * time.Minute},
	{OffTheBus, Failed, Reboot, bySample, 30 * time.Minute},
	{RebootRequired, Failed, Reboot, bySample, 30 * time.Minute},
	{RebootError, Failed, Reboot, byVerdict, 30 * time.Minute},
	{NoAnswer, Degraded, Reboot, bySample, 2 * time.Minute},
	{ResetRequired, Degraded, Reset, bySample, 10 * time.Minute},
	{ResetError, Degraded, Reset, byVerdict, 10 * time.Minute},
	{UncorrectedMemory, Degraded, Reset, byVerdict, 10 * time.Minute},
	{RowRemapPending, Degraded, Reset, bySample, 10 * time.Minute},
	{RetiredPagesPending, Degraded, Reset, bySample, 10 * time.Minute},
	{DrainRequired, Degraded, RestartApplication, bySample, 10 * time.Minute},
	{FabricRecovery, Degraded, Inspect, bySample, 10 * time.Minute},
	{UnknownVerdict, Degraded, Inspect, bySample, 10 * time.Minute},
	{InspectError, Degraded, Inspect, byVerdict, 10 * time.Minute},
	{NVLinkDown, Degraded, Reset, bySample, 10 * time.Minute},
	{PCIeNarrow, Degraded, Inspect, bySample, 10 * time.Minute},
	{Throttled, Degraded, Inspect, bySample, 10 * time.Minute},
	{Hot, Degraded, Inspect, bySample, 10 * time.Minute},
	{RestartError, Suspect, RestartApplication, byTime, 5 * time.Minute},
	{ApplicationErrors, Suspect, RestartApplication, byTime, 5 * time.Minute},
	{Unwatched, Suspect, Inspect, bySample, time.Minute},
}

// Codes lists all causes, the most severe first.
func Codes() []Code {
	out := make([]Code, len(rules))
	for i, r := range rules {
		out[i] = r.code
	}
	return out
}

// rank is the place of a code among the rules, -1 for one that is none of them.
func rank(code Code) int {
	for i := range rules {
		if rules[i].code == code {
			return i
		}
	}
	return -1
}
