package sharing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/cdi"
	"github.com/tangram-dev/tangram/internal/agent/sharing/hami"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mig"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// Mode is how a device is shared.
type Mode string

// The modes.
const (
	TimeSlicing Mode = "time-slicing"
	MPS         Mode = "mps"
	HAMi        Mode = "hami"
)

// Turns is how the turns of one resource are sold.
type Turns struct {
	// Mode is TimeSlicing or MPS.
	Mode Mode
	// Replicas is how many turns each device has; needed for MPS, where each is a share.
	Replicas int
	// Percents are the parts of the device that turns get with MPS, of compute and memory
	// alike, by the turn's number; one for each replica. Empty for equal parts.
	Percents []int
}

// Options are the settings.
type Options struct {
	Backend device.Backend
	// CDIDir is the folder of the spec files; default /var/run/cdi.
	CDIDir string
	// StateDir holds what must survive a restart of the agent; default /run/tangram. The
	// state folders of MIG, MPS and HAMi are below it unless they say otherwise.
	StateDir string
	// Shares enforces shares by amount: MPS or HAMi; TimeSlicing gives them without
	// limits. Empty: such shares are refused.
	Shares Mode
	// Turns are by resource name. Turns of a resource that is not listed are
	// time-slicing.
	Turns map[string]Turns
	MIG   mig.Options
	MPS   mps.Options
	HAMi  hami.Options
	// Live lists what kubelet has allocated, read fresh. With it, a device that is still
	// held by an allocation that has just ended is given at once and not with the next
	// Collect. May be nil.
	Live func(ctx context.Context) ([]device.Allocation, error)
	// Grace is how long a prepared allocation counts as live without being listed;
	// default 30 s.
	Grace time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Sharing is the sharing of one node's devices. Its methods may be called at the same
// time.
type Sharing struct {
	options Options
	specs   *cdi.Store
	mig     *mig.Manager
	mps     *mps.Manager  // nil when nothing is shared by MPS
	hami    *hami.Limiter // nil when nothing is shared by HAMi-core

	mu     sync.Mutex
	recent map[string]prepared
}

// prepared is an allocation that was prepared a while ago.
type prepared struct {
	allocation device.Allocation
	at         time.Time
}

// New opens what is needed for the settings, which package config has checked. Errors name the
// field.
func New(o Options) (*Sharing, error) {
	if o.Backend == nil {
		return nil, errors.New("sharing.backend: missing")
	}
	o.CDIDir = cmp.Or(o.CDIDir, cdi.DefaultDir)
	o.StateDir = cmp.Or(o.StateDir, "/run/tangram")
	o.Grace = cmp.Or(o.Grace, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if !filepath.IsAbs(o.StateDir) {
		return nil, fmt.Errorf("sharing.stateDir: must be an absolute path, is %q", o.StateDir)
	}
	var err error
	s := &Sharing{options: o, recent: map[string]prepared{}}
	if s.specs, err = cdi.NewStore(o.CDIDir); err != nil {
		return nil, fmt.Errorf("sharing.cdiDir: %w", err)
	}
	o.MIG.Journal = cmp.Or(o.MIG.Journal, filepath.Join(o.StateDir, "mig.json"))
	o.MIG.Log = cmp.Or(o.MIG.Log, o.Log)
	if s.mig, err = mig.New(o.Backend, o.MIG); err != nil {
		return nil, fmt.Errorf("sharing.%w", err)
	}
	if o.Shares == HAMi {
		o.HAMi.CacheDir = cmp.Or(o.HAMi.CacheDir, filepath.Join(o.StateDir, "hami"))
		if s.hami, err = hami.New(o.HAMi); err != nil {
			return nil, fmt.Errorf("sharing.%w", err)
		}
	}
	if o.Shares == MPS || slices.ContainsFunc(slices.Collect(maps.Values(o.Turns)), func(t Turns) bool { return t.Mode == MPS }) {
		o.MPS.StateDir = cmp.Or(o.MPS.StateDir, filepath.Join(o.StateDir, "mps"))
		o.MPS.Log = cmp.Or(o.MPS.Log, o.Log)
		if s.mps, err = mps.New(o.MPS); err != nil {
			return nil, fmt.Errorf("sharing.%w", err)
		}
	}
	return s, nil
}

// MPS is the manager of MPS shares, for a Guard; nil when nothing is shared by MPS.
func (s *Sharing) MPS() *mps.Manager { return s.mps }

// Owned are the MIG instances that were cut here, with the time since which no allocation
// uses them (zero while one does).
func (s *Sharing) Owned(ctx context.Context) (map[mig.Placement]time.Time, error) {
	return s.mig.Owned(ctx)
}

// Modes are the GPUs whose MIG mode was turned on here, by UUID.
func (s *Sharing) Modes(ctx context.Context) (map[string]bool, error) { return s.mig.Modes(ctx) }

// Close leaves everything as it is for the next agent: containers go on.
func (s *Sharing) Close() {
	if s.mps != nil {
		s.mps.Close()
	}
}
