package publish

import (
	"time"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Health is what is known of one device's health.
type Health struct {
	UUID  string
	State v1alpha1.Health
	// Reason says why it is not healthy, Cause is the code of it.
	Reason, Cause string
	// Since is when it came into the state; zero when that is not known.
	Since time.Time
	// LastXID is the driver's last error number on the device; 0 for none.
	LastXID int
}

// Problem is why the driver cannot be used.
type Problem struct {
	// Reason is one word for conditions, such as NoDriver.
	Reason, Message string
	Since           time.Time
}

// state is the newest of everything the agent knows.
type state struct {
	inventory *device.Inventory
	owned     map[string]bool
	// revision counts inventories.
	revision int
	problem  *Problem
	// observes: the agent does not serve, whatever its options say.
	observes bool
	health   map[string]*Health
	samples  map[string]*device.Sample
	// over are pods that use more of a device's memory than they were given, by UUID.
	over map[string][]v1alpha1.MemoryUse
}

// known says whether there is anything to publish yet.
func (s *state) known() bool { return s.inventory != nil || s.problem != nil }

// measuredAt is when the newest sample was taken or tried; zero when there is none. That a
// device did not answer is news too, and shows that the agent lives.
func (s *state) measuredAt() (at time.Time) {
	for _, sample := range s.samples { // the latest does not depend on the order
		if sample.At.After(at) {
			at = sample.At
		}
	}
	return at
}
