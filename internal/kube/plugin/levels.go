package plugin

import (
	"fmt"
	"slices"
	"time"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// setLevels takes over the levels of domains that a profile's arguments list. Nodes
// are in one tree for all profiles, so profiles must agree; one that lists none
// takes what the others list.
func (s *Shared) setLevels(profile string, args *FilterArgs) error {
	levels, err := args.levels()
	if err != nil || levels == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.levels != "" {
		if !slices.Equal(levels, s.engine.Levels()) {
			return fmt.Errorf("topologyLevels: other levels than in profile %q, and the scheduler has one tree of domains", s.levels)
		}
		return nil
	}
	s.levels = profile
	s.engine.Configure(func(set *kubeengine.Settings) { set.Levels = levels })
	return nil
}

// setTelemetryMaxAge takes over how old telemetry may be. There is one ledger for all
// profiles, so profiles must agree; one that says nothing takes what the others say.
func (s *Shared) setTelemetryMaxAge(profile string, age time.Duration) error {
	if age == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxAge.profile != "" {
		if age != s.maxAge.age {
			return fmt.Errorf("telemetryMaxAge: %s, but %s in profile %q, and there is one for all", age, s.maxAge.age, s.maxAge.profile)
		}
		return nil
	}
	s.maxAge.profile, s.maxAge.age = profile, age
	s.engine.Configure(func(set *kubeengine.Settings) { set.TelemetryMaxAge = age })
	return nil
}
