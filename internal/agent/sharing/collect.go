package sharing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mig"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// Release takes an allocation's CDI file away at once. Its instance or share goes with
// the next Collect that does not list it.
func (s *Sharing) Release(_ context.Context, id string) error {
	s.mu.Lock()
	delete(s.recent, id)
	s.mu.Unlock()
	return s.specs.Remove(id)
}

// Collect removes everything that no live allocation needs: CDI files, MPS daemons, MIG
// instances, folders. It is to be called before the first Prepare after a start, because
// it also takes over what an earlier agent left, and then every few seconds. A failure
// of one way of sharing does not keep the others from being collected.
func (s *Sharing) Collect(ctx context.Context, live []device.Allocation) error {
	live = s.withRecent(live)
	var ids []string
	var placements []mig.Placement
	for _, a := range live {
		ids = append(ids, a.ID)
		if a.Admin {
			continue // its file alone is kept
		}
		for _, grant := range a.Devices {
			if k, err := kindOf(grant); err == nil && k == slice {
				placements = append(placements, placement(grant))
			}
		}
	}
	var errs []error
	removed, err := s.specs.Collect(ids)
	errs = append(errs, err)
	if len(removed) > 0 {
		s.options.Log.Info("Ended allocations collected", "ids", removed)
	}
	// MPS before MIG: a daemon keeps its GPU in use.
	if s.mps != nil {
		errs = append(errs, s.collectMPS(ctx, live))
	}
	errs = append(errs, s.mig.Collect(ctx, placements))
	if s.hami != nil {
		errs = append(errs, s.hami.Collect(live))
	}
	return errors.Join(errs...)
}

func (s *Sharing) collectMPS(ctx context.Context, live []device.Allocation) error {
	inventory, err := s.options.Backend.Inventory(ctx)
	if err != nil {
		return fmt.Errorf("collect MPS shares: %w", err)
	}
	// A device that the driver does not list at the moment keeps its shares: ending its
	// daemon would end programs that may still run.
	find := func(uuid string) (mps.GPU, bool) {
		if gpu, ok := finder(inventory)(uuid); ok {
			return gpu, true
		}
		return s.mps.GPU(uuid)
	}
	var errs []error
	shares := map[mps.GPU][]mps.Share{}
	for _, a := range live {
		k, err := kindsOf(a)
		if err != nil || a.Admin {
			continue // it was never prepared, or takes no part
		}
		gpu, share, byMPS, err := s.share(a, k, find)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect MPS share of %s/%s/%s: %w", a.Namespace, a.Pod, a.Container, err))
		} else if byMPS {
			shares[gpu] = append(shares[gpu], share)
		}
	}
	return errors.Join(errors.Join(errs...), s.mps.Keep(ctx, shares))
}

// withRecent adds what was prepared too recently to be listed, and forgets what was not.
func (s *Sharing) withRecent(live []device.Allocation) []device.Allocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append([]device.Allocation(nil), live...)
	listed := map[string]bool{}
	for _, a := range live {
		listed[a.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(s.recent)) {
		p := s.recent[id]
		switch {
		case s.options.Now().Sub(p.at) >= s.options.Grace:
			delete(s.recent, id)
		case !listed[id]:
			out = append(out, p.allocation)
		}
	}
	return out
}
