package mps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Manager has the shares of all GPUs of a node. Its methods may be called at the same
// time.
type Manager struct {
	options Options

	mu      sync.Mutex
	closed  bool
	shares  map[string][]Share // by GPU
	gpus    map[string]GPU
	daemons map[string]*daemon
}

// New checks the settings. It starts nothing: a daemon starts with the first share of
// its GPU.
func New(options Options) (*Manager, error) {
	options, err := options.check()
	if err != nil {
		return nil, err
	}
	if options.Exclusive == nil {
		options.Log.Warn("Shared GPUs are not in compute mode EXCLUSIVE_PROCESS: a container can bypass MPS")
	}
	return &Manager{options: options, shares: map[string][]Share{}, gpus: map[string]GPU{}, daemons: map[string]*daemon{}}, nil
}

// Add gives a container its share and returns what it needs to use it; the GPU's daemon
// serves then. Adding the same allocation again changes it. ErrOvercommitted names all
// shares of the GPU when they would be more than the GPU.
func (m *Manager) Add(ctx context.Context, gpu GPU, share Share) (device.Edits, error) {
	if err := safeName(gpu.UUID); err != nil {
		return device.Edits{}, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return device.Edits{}, errors.New("MPS: closed")
	}
	before := m.shares[gpu.UUID]
	others := slices.DeleteFunc(slices.Clone(before), func(s Share) bool { return s.Allocation == share.Allocation })
	if err := fits(gpu, others, share); err != nil {
		m.mu.Unlock()
		return device.Edits{}, fmt.Errorf("MPS share: %w", err)
	}
	now := append(others, share)
	m.shares[gpu.UUID], m.gpus[gpu.UUID] = now, gpu
	d := m.daemon(gpu)
	m.mu.Unlock()
	err := d.share(ctx, now)
	if err == nil {
		err = d.ready(ctx)
	}
	if err != nil {
		// The share stays: the daemon is still being started, and the container is
		// tried again. If not, Keep removes it.
		return device.Edits{}, fmt.Errorf("MPS share of %s: %w", share.Holder(), err)
	}
	return m.options.edits(gpu, share), nil
}

// daemon returns a GPU's daemon, supervised from now on. m.mu is held.
func (m *Manager) daemon(gpu GPU) *daemon {
	d := m.daemons[gpu.UUID]
	if d == nil {
		d = supervise(gpu, &m.options)
		m.daemons[gpu.UUID] = d
	}
	return d
}

// Keep makes the given shares all there are: others end, their daemons too when none is
// left. It takes over shares that it does not know, without asking whether they fit:
// their containers run. So it also brings the state back after a restart of the agent,
// and takes over daemons that run. Ending a daemon takes about a second, in which Add
// waits: a new one on the same GPU must not begin before the old one is gone.
func (m *Manager) Keep(ctx context.Context, live map[GPU][]Share) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("MPS: closed")
	}
	next := map[string][]Share{}
	var errs []error
	for gpu, shares := range live {
		if err := safeName(gpu.UUID); err != nil {
			errs = append(errs, err)
			continue
		}
		if len(shares) > 0 {
			next[gpu.UUID], m.gpus[gpu.UUID] = slices.Clone(shares), gpu
		}
	}
	// Daemons of GPUs without shares, also those that an earlier agent left.
	left, err := m.left()
	errs = append(errs, err)
	for _, uuid := range left {
		if next[uuid] == nil && m.daemons[uuid] == nil {
			newDaemon(GPU{UUID: uuid}, &m.options).shutdown()
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(m.daemons)) {
		if next[uuid] == nil {
			m.daemons[uuid].end(true)
			delete(m.daemons, uuid)
		}
	}
	m.shares = next
	for _, uuid := range slices.Sorted(maps.Keys(next)) {
		errs = append(errs, m.daemon(m.gpus[uuid]).share(ctx, next[uuid]))
	}
	return errors.Join(errs...)
}

// Free makes sure that no daemon holds a GPU, so that it can be used without MPS. It is
// device.ErrBusy, with names, while the GPU has shares.
func (m *Manager) Free(gpu string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if shares := m.shares[gpu]; len(shares) > 0 {
		return fmt.Errorf("%s: %w: shared by MPS with %s", gpu, device.ErrBusy, strings.Join(holdersOf(shares), ", "))
	}
	if left, err := m.left(); err != nil || m.closed || m.daemons[gpu] != nil || !slices.Contains(left, gpu) {
		return err
	}
	newDaemon(GPU{UUID: gpu}, &m.options).shutdown()
	return nil
}

// left are the GPUs in whose folder a daemon runs.
func (m *Manager) left() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(m.options.StateDir, "*", "pipe", pidFile))
	var out []string
	for _, file := range files {
		out = append(out, filepath.Base(filepath.Dir(filepath.Dir(file))))
	}
	return out, err
}

// Shares are the shares of all GPUs, by GPU.
func (m *Manager) Shares() map[string][]Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]Share{}
	for gpu, shares := range m.shares {
		out[gpu] = slices.Clone(shares)
	}
	return out
}

// GPU is a GPU that has or had shares.
func (m *Manager) GPU(uuid string) (GPU, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gpu, ok := m.gpus[uuid]
	return gpu, ok
}

// Ready returns nil when the daemon of a GPU serves, and why it does not otherwise.
func (m *Manager) Ready(gpu string) error {
	m.mu.Lock()
	d := m.daemons[gpu]
	m.mu.Unlock()
	if d == nil {
		return errors.New("no shares")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.up {
		return nil
	}
	return errors.Join(errors.New("not ready"), d.last)
}

// control is how to talk to a GPU's daemon.
func (m *Manager) control(gpu string) control {
	return control{m.options.Control, m.options.pipe(gpu), m.options.AnswerWithin}
}

// Close ends supervision and leaves the daemons to the next agent: containers go on.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, d := range m.daemons {
		d.end(false)
	}
	clear(m.daemons)
}

// safeName: a UUID becomes the name of a folder.
func safeName(uuid string) error {
	if uuid == "" || uuid == "." || uuid == ".." || filepath.Base(uuid) != uuid {
		return fmt.Errorf("MPS share: device UUID %q cannot be the name of a folder", uuid)
	}
	return nil
}
