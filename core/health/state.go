package health

import "time"

// State is how well a device is, worse ones greater.
type State int

// The states. Their names are GPUNode's.
const (
	// Healthy: the device takes pods.
	Healthy State = iota
	// Suspect: something failed that restarting the application cures, or the agent
	// cannot see errors at the moment. It passes by itself.
	Suspect
	// Degraded: the device works, but not as it should, until it is reset or repaired.
	Degraded
	// Failed: the device does not work until the node is rebooted or the device replaced.
	Failed
)

// States lists all of them, mildest first.
func States() []State { return []State{Healthy, Suspect, Degraded, Failed} }

func (s State) String() string {
	if names := [...]string{"Healthy", "Suspect", "Degraded", "Failed"}; s >= Healthy && s <= Failed {
		return names[s]
	}
	return "Unknown"
}

// Help is what would cure a device.
type Help string

// What may help, weakest first.
const (
	NoHelp             Help = ""
	RestartApplication Help = "restart the application"
	Inspect            Help = "inspect the hardware and its surroundings"
	Reset              Help = "reset the device"
	Reboot             Help = "reboot the node"
	Replace            Help = "replace the device"
)

// Status is what is to be said about a device.
type Status struct {
	State State
	// Code names the worst cause; empty when Healthy. Reason is a sentence about it.
	Code   Code
	Reason string
	// XID is the driver's error number behind the cause; 0 when there is none.
	XID int
	// Since is when the device came into this state; zero for a device that never
	// changed.
	Since time.Time
	Help  Help
	// Until is when the device is back in a better state if nothing more happens; zero
	// while a cause lasts, or when Healthy.
	Until time.Time
}

// Usable says whether new pods may be given the device.
func (s Status) Usable() bool { return s.State == Healthy }
