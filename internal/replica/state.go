package replica

import (
	"fmt"
	"os"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// State is a copy of the scheduler's state at a moment. It does not change, and is safe for
// concurrent use: every question is answered on a replica of its own.
type State struct {
	snapshot *kubeengine.Snapshot
	// offline: images are digests.
	offline bool
	limits  Limits
}

// Load reads a dump from a file.
func Load(file string) (*State, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := ReadDump(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &State{snapshot: s, offline: true, limits: DefaultLimits()}, nil
}

// Of is the state of an engine now.
func Of(e *kubeengine.Engine) (*State, error) {
	s, err := e.Snapshot()
	if err != nil {
		return nil, err
	}
	return &State{snapshot: s, limits: DefaultLimits()}, nil
}
