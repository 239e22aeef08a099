package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Collect removes own instances that no live placement uses, after they lingered, and
// then turns MIG mode off where the agent turned it on. It is to be called at start and
// then every few seconds with everything that is allocated. What is in use by a process
// is tried again the next time and is no error.
func (m *Manager) Collect(ctx context.Context, live []Placement) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.end()
	inventory, err := m.driver.Inventory(ctx)
	if err != nil {
		return fmt.Errorf("collect MIG instances: %w", err)
	}
	if m.observe(inventory) {
		m.save()
	}
	m.mark(live)
	if err := m.allowed(); err != nil {
		if !m.told {
			m.options.Log.Warn("MIG instances are not changed", "err", err)
		}
		m.told = true
		return nil
	}
	m.told = false
	var errs []error
	for _, entry := range slices.Clone(m.journal.Instances) {
		if s := m.states[entry.placement()]; !entry.Creating && !s.isWanted() && m.options.Now().Sub(s.unwanted) >= m.options.Linger {
			errs = append(errs, m.remove(ctx, entry, s))
		}
	}
	errs = append(errs, m.modes(ctx, live))
	return errors.Join(errs...)
}

// mark notes since when each own instance has no allocation.
func (m *Manager) mark(live []Placement) {
	for _, entry := range m.journal.Instances {
		p := entry.placement()
		used := slices.ContainsFunc(live, func(l Placement) bool {
			return l.GPU == p.GPU && l.Start == p.Start && device.SameProfile(l.Profile, p.Profile)
		})
		switch s := m.states[p]; {
		case used:
			m.use(p)
		case s == nil:
			m.states[p] = &state{unwanted: m.options.Now()}
		case s.unwanted.IsZero():
			s.unwanted = m.options.Now()
		}
	}
}

// remove destroys an instance unless a process uses it.
func (m *Manager) remove(ctx context.Context, entry owned, s *state) error {
	err := m.destroy(ctx, entry)
	if !errors.Is(err, device.ErrBusy) {
		return err
	}
	m.options.Busy(entry.placement())
	if !s.told {
		m.options.Log.Warn("MIG instance without an allocation is still in use; will retry",
			"placement", entry.placement().String(), "uuid", entry.UUID, "err", err)
		s.told = true
	}
	return nil
}

// modes turns MIG mode off where the agent turned it on and no instance is left. The
// driver is asked again, because another program may have cut the device meanwhile; its
// own refusal covers the time since.
func (m *Manager) modes(ctx context.Context, live []Placement) error {
	if len(m.journal.Modes) == 0 {
		return nil
	}
	inventory, err := m.driver.Inventory(ctx)
	if err != nil {
		return fmt.Errorf("collect MIG modes: %w", err)
	}
	var errs []error
	for _, gpu := range slices.Clone(m.journal.Modes) {
		d := inventory.Find(gpu)
		// An entry of the device in the journal: a creation is still under way.
		if d == nil || d.MIG == nil || !d.MIG.Enabled || len(d.MIG.Instances) > 0 ||
			slices.ContainsFunc(m.journal.Instances, func(o owned) bool { return o.GPU == gpu }) ||
			slices.ContainsFunc(live, func(p Placement) bool { return p.GPU == gpu }) {
			continue
		}
		if err := m.disable(ctx, gpu); err != nil && !errors.Is(err, device.ErrBusy) {
			errs = append(errs, fmt.Errorf("device %s: %w", gpu, err))
		}
	}
	return errors.Join(errs...)
}

// Owned are the placements of own instances, for a metric and for tests, with the time
// since which no allocation uses them (zero while one does).
func (m *Manager) Owned(ctx context.Context) (map[Placement]time.Time, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.end()
	out := map[Placement]time.Time{}
	for _, entry := range m.journal.Instances {
		var since time.Time
		if s := m.states[entry.placement()]; s != nil {
			since = s.unwanted
		}
		out[entry.placement()] = since
	}
	return out, nil
}

// Modes are the GPUs whose MIG mode the agent turned on, by UUID.
func (m *Manager) Modes(ctx context.Context) (map[string]bool, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.end()
	out := map[string]bool{}
	for _, gpu := range m.journal.Modes {
		out[gpu] = true
	}
	return out, nil
}
