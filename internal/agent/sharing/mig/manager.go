package mig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Manager makes and removes the MIG instances of one node. Its methods may be called at
// the same time; they take turns, because each begins with the driver's view of all
// devices.
type Manager struct {
	driver  Driver
	options Options
	turn    chan struct{} // holds one value while no call is at work

	journal journal
	states  map[Placement]*state
	asked   map[Placement]time.Time // when the driver was asked for a creation
	// told: a log line named the program that manages MIG here.
	told bool
}

// New reads the journal. It asks the driver nothing, so it works without one. Until the
// first Collect every instance in the journal counts as wanted.
func New(driver Driver, options Options) (*Manager, error) {
	options, err := options.check()
	if err != nil {
		return nil, err
	}
	content, aside, err := load(options.Journal)
	if err != nil {
		return nil, err
	}
	if aside != "" {
		options.Log.Error("MIG journal cannot be read; instances made before are left alone", "kept", aside)
	}
	if content.Boot != options.Boot {
		content.Boot, content.Instances = options.Boot, nil
	}
	m := &Manager{driver: driver, options: options, journal: content,
		turn: make(chan struct{}, 1), states: map[Placement]*state{}, asked: map[Placement]time.Time{}}
	m.turn <- struct{}{}
	return m, nil
}

// Ensure makes the instance exist and returns it. One that exists already is returned as
// it is, also one of another program. Own instances in the way that no allocation uses are removed;
// anything else in the way is an error and stays.
//
// Errors: device.ErrNotFound and device.ErrNotSupported for a placement that the device
// does not have, device.ErrBusy when something in use is in the way (a retry may help),
// ErrForeign when it belongs to another program.
func (m *Manager) Ensure(ctx context.Context, want Placement) (device.Instance, error) {
	if err := m.begin(ctx); err != nil {
		return device.Instance{}, err
	}
	defer m.end()
	instance, err := m.ensure(ctx, want)
	if err != nil {
		return device.Instance{}, fmt.Errorf("MIG instance %v: %w", want, err)
	}
	return instance, nil
}

func (m *Manager) ensure(ctx context.Context, want Placement) (device.Instance, error) {
	d, err := m.look(ctx, want.GPU)
	if err != nil {
		return device.Instance{}, err
	}
	for _, instance := range d.MIG.Instances {
		if device.SameProfile(instance.Profile, want.Profile) && instance.Start == want.Start && instance.UUID != "" {
			if i := m.find(want.GPU, instance); i >= 0 {
				m.use(m.journal.Instances[i].placement())
			}
			return instance, nil
		}
	}
	if err := m.allowed(); err != nil {
		return device.Instance{}, err
	}
	if !d.MIG.Enabled {
		if d, err = m.enable(ctx, d); err != nil {
			return device.Instance{}, err
		}
	}
	profile, err := profileOf(d, want)
	if err != nil {
		return device.Instance{}, err
	}
	if err := m.clear(ctx, d, want.Start, want.Start+profile.Size); err != nil {
		return device.Instance{}, err
	}
	return m.create(ctx, want, profile)
}

// EnsureWhole makes a device fit to be handed out whole: own instances that no
// allocation uses are removed and MIG mode is turned off, if the agent turned it on.
func (m *Manager) EnsureWhole(ctx context.Context, gpu string) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.end()
	d, err := m.look(ctx, gpu)
	if errors.Is(err, device.ErrNotSupported) {
		return nil
	}
	if err == nil && d.MIG.Enabled {
		if err = m.allowed(); err == nil {
			err = m.whole(ctx, d)
		}
	}
	if err != nil {
		return fmt.Errorf("device %s as a whole: %w", gpu, err)
	}
	return nil
}

func (m *Manager) whole(ctx context.Context, d *device.Device) error {
	if !slices.Contains(m.journal.Modes, d.UUID) {
		return fmt.Errorf("%w: its MIG mode was not turned on by the agent", ErrForeign)
	}
	// All slices, and then some: the numbers of slices grow with hardware.
	const all = 1 << 16
	if err := m.clear(ctx, d, 0, all); err != nil {
		return err
	}
	return m.disable(ctx, d.UUID)
}

// look returns a device as it is now, with the journal in line with it. The device can
// be cut: its MIG is not nil.
func (m *Manager) look(ctx context.Context, gpu string) (*device.Device, error) {
	inventory, err := m.driver.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	if m.observe(inventory) {
		// What is forgotten here is forgotten again after a restart.
		m.save()
	}
	d := inventory.Find(gpu)
	if d == nil {
		return nil, fmt.Errorf("%w: no device %s", device.ErrNotFound, gpu)
	}
	if d.MIG == nil {
		return nil, fmt.Errorf("%w: %s has no MIG", device.ErrNotSupported, d.Model)
	}
	return d, nil
}

// enable turns MIG mode on and returns the device as it is then; some drivers list
// profiles only in that mode.
func (m *Manager) enable(ctx context.Context, d *device.Device) (*device.Device, error) {
	samples, err := m.driver.Sample(ctx)
	if err != nil {
		return nil, err
	}
	for _, sample := range samples {
		if sample.UUID == d.UUID && len(sample.Processes) > 0 {
			return nil, fmt.Errorf("turn MIG mode on: %w by process %d", device.ErrBusy, sample.Processes[0].PID)
		}
	}
	if !slices.Contains(m.journal.Modes, d.UUID) {
		m.journal.Modes = append(m.journal.Modes, d.UUID)
		if err := m.journal.save(m.options.Journal); err != nil {
			m.journal.Modes = slices.DeleteFunc(m.journal.Modes, func(gpu string) bool { return gpu == d.UUID })
			return nil, err
		}
	}
	if err := m.driver.SetMIG(ctx, d.UUID, true); err != nil {
		return nil, fmt.Errorf("turn MIG mode on: %w", err)
	}
	m.options.Log.Info("MIG mode turned on", "gpu", d.UUID)
	d, err = m.look(ctx, d.UUID)
	if err == nil && !d.MIG.Enabled {
		// Ampere: the mode changes with the next reset of the device.
		return nil, fmt.Errorf("turn MIG mode on: %w until the device is reset", device.ErrBusy)
	}
	return d, err
}

// disable turns MIG mode off on a device without instances.
func (m *Manager) disable(ctx context.Context, gpu string) error {
	if err := m.driver.SetMIG(ctx, gpu, false); err != nil {
		return fmt.Errorf("turn MIG mode off: %w", err)
	}
	m.options.Log.Info("MIG mode turned off", "gpu", gpu)
	m.journal.Modes = slices.DeleteFunc(m.journal.Modes, func(mode string) bool { return mode == gpu })
	m.save()
	return nil
}

// clear makes the slices from start up to end free, removing own instances that no
// allocation uses. Nothing is removed when something else is in the way.
func (m *Manager) clear(ctx context.Context, d *device.Device, start, end int) error {
	var remove []owned
	for _, instance := range d.MIG.Instances {
		if instance.Start >= end || instance.Start+instance.Size <= start {
			continue
		}
		i := m.find(d.UUID, instance)
		if i < 0 {
			return fmt.Errorf("%w: %s at slice %d (%s) is in the way", ErrForeign, instance.Profile, instance.Start, instance.UUID)
		}
		entry := m.journal.Instances[i]
		// Without a compute instance it serves no container, wanted or not.
		if m.states[entry.placement()].isWanted() && instance.UUID != "" {
			return fmt.Errorf("%w: %s at slice %d (%s) is allocated", device.ErrBusy, entry.Profile, entry.Start, entry.UUID)
		}
		remove = append(remove, entry)
	}
	for _, entry := range remove {
		if err := m.destroy(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// create asks the driver for an instance, journalled before.
func (m *Manager) create(ctx context.Context, want Placement, profile device.Profile) (device.Instance, error) {
	intent := owned{GPU: want.GPU, Profile: profile.Name, ProfileID: profile.ID, Start: want.Start, Creating: true}
	m.forget(intent) // of an earlier try that timed out
	m.journal.Instances = append(m.journal.Instances, intent)
	m.asked[intent.placement()] = m.options.Now()
	if err := m.journal.save(m.options.Journal); err != nil {
		m.forget(intent)
		return device.Instance{}, err
	}
	instance, err := m.driver.CreateInstance(ctx, want.GPU, profile.ID, want.Start)
	if err != nil {
		// After a timeout the driver may still be at it: the next look decides.
		if !errors.Is(err, device.ErrTimeout) && ctx.Err() == nil {
			m.forget(intent)
			m.save()
		}
		return device.Instance{}, err
	}
	entry := intent
	entry.Creating, entry.GPUInstance, entry.UUID = false, instance.GPUInstance, instance.UUID
	m.forget(intent)
	m.journal.Instances = append(m.journal.Instances, entry)
	m.save()
	if instance.UUID == "" || instance.Start != want.Start || instance.ProfileID != profile.ID {
		err := fmt.Errorf("the driver made %s at slice %d instead", instance.Profile, instance.Start)
		return device.Instance{}, errors.Join(err, m.destroy(ctx, entry))
	}
	m.use(entry.placement())
	m.options.Log.Info("MIG instance created", "placement", entry.placement().String(), "uuid", entry.UUID)
	return instance, nil
}

// destroy removes an own instance.
func (m *Manager) destroy(ctx context.Context, entry owned) error {
	err := m.driver.DestroyInstance(ctx, entry.GPU, entry.GPUInstance)
	if err != nil && !errors.Is(err, device.ErrNotFound) {
		return fmt.Errorf("remove %s at slice %d: %w", entry.Profile, entry.Start, err)
	}
	m.options.Log.Info("MIG instance removed", "placement", entry.placement().String(), "uuid", entry.UUID)
	m.forget(entry)
	m.save()
	return nil
}

// save writes the journal where losing the write is safe: after a restart the driver's
// view leads to the same journal.
func (m *Manager) save() {
	if err := m.journal.save(m.options.Journal); err != nil {
		m.options.Log.Error("MIG journal not written", "err", err)
	}
}

// use marks a placement as wanted.
func (m *Manager) use(p Placement) { m.states[p] = &state{} }

// isWanted: also when nothing is known yet.
func (s *state) isWanted() bool { return s == nil || s.unwanted.IsZero() }

// allowed returns an error when another program manages MIG on this node.
func (m *Manager) allowed() error {
	if other := m.options.Manager(); other != "" {
		return fmt.Errorf("%w: MIG on this node is managed by another program (%s)", ErrForeign, other)
	}
	return nil
}

func (m *Manager) begin(ctx context.Context) error {
	select {
	case <-m.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the previous change of MIG: %w", ctx.Err())
	}
}

func (m *Manager) end() { m.turn <- struct{}{} }

// profileOf finds a profile and checks the start.
func profileOf(d *device.Device, want Placement) (device.Profile, error) {
	for _, profile := range d.MIG.Profiles {
		if !device.SameProfile(profile.Name, want.Profile) {
			continue
		}
		if !slices.Contains(profile.Starts, want.Start) {
			return device.Profile{}, fmt.Errorf("%w: %s may start at slices %v", device.ErrNotSupported, profile.Name, profile.Starts)
		}
		return profile, nil
	}
	return device.Profile{}, fmt.Errorf("%w: %s has no such profile", device.ErrNotSupported, d.Model)
}
