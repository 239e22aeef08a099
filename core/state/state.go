package state

import (
	"fmt"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
)

// Version is the version of the format that Encode writes and Decode reads. It changes
// when a reader of the old one would misunderstand the new one.
const Version = 1

// State is what the scheduler has learned.
type State struct {
	// At is when it was saved, in nanoseconds since 1970.
	At      int64
	Learned engine.Learned
	// Runtimes are in the order of arbiter.Runtimes.Save: the first are kept when not all
	// can be.
	Runtimes []arbiter.SavedRuntime
}

// Validate names the field that makes no valid state.
func (s *State) Validate() error {
	if s.At < 0 || s.Learned.Queues.At < 0 {
		return fmt.Errorf("at: is negative")
	}
	if err := s.Learned.Queues.Validate(); err != nil {
		return err
	}
	for i := range s.Runtimes {
		if err := s.Runtimes[i].Validate(); err != nil {
			return fmt.Errorf("runtimes[%d].%w", i, err)
		}
	}
	if err := s.Learned.Mix.Validate(); err != nil {
		return fmt.Errorf("mix.%w", err)
	}
	return nil
}
