package replica

import (
	"context"
	"fmt"
	"os"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
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

// Why says why an object's pods wait, as the scheduler would have said then, with the
// expected start by a forecast on the same state. kind may be empty.
func (s *State) Why(ctx context.Context, namespace, kind, name string) (*query.Why, error) {
	r, err := NewReplica(s.snapshot)
	if err != nil {
		return nil, err
	}
	var forecast *Forecast
	r.Foresee(func(id engine.ID) (query.Start, bool) {
		if forecast == nil {
			if forecast, err = s.Forecast(ctx); err != nil {
				return query.Start{}, false
			}
		}
		return forecast.Start(id, s.snapshot.At)
	})
	out := r.Why(ctx, kind, namespace, name, All{}, nil)
	return &out, err
}

// Explain says why a pod is where it is; a problem says why there is no answer.
func (s *State) Explain(namespace, name string) (*query.Explain, error) {
	r, err := NewReplica(s.snapshot)
	if err != nil {
		return nil, err
	}
	out, problem := r.Explain(namespace, name, All{})
	if problem != "" {
		return nil, &query.Error{Status: 404, Reason: "NotFound", Message: problem}
	}
	return &out, nil
}
