package plugin

import (
	"fmt"
	"slices"
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
	s.engine.SetLevels(levels)
	return nil
}
