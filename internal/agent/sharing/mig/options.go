package mig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// ErrForeign is the error where what is in the way belongs to another program, so that it
// is not touched. A retry helps only after that program or an operator has acted.
var ErrForeign = errors.New("not managed by this agent")

// Driver is what the package needs of a device.Backend.
type Driver interface {
	Inventory(ctx context.Context) (*device.Inventory, error)
	Sample(ctx context.Context) ([]device.Sample, error)
	SetMIG(ctx context.Context, uuid string, on bool) error
	CreateInstance(ctx context.Context, uuid string, profileID, start int) (device.Instance, error)
	DestroyInstance(ctx context.Context, uuid string, gpuInstance int) error
}

// Placement is where an instance is wanted.
type Placement struct {
	GPU     string // UUID of the physical device
	Profile string // such as 1g.18gb
	Start   int    // memory slice it begins at
}

// String is such as "1g.18gb at slice 4 of GPU-...".
func (p Placement) String() string {
	return fmt.Sprintf("%s at slice %d of %s", p.Profile, p.Start, p.GPU)
}

// Options are the settings.
type Options struct {
	// Journal is the file that says what is the agent's own. It must survive a restart
	// of the agent; it need not survive a reboot.
	Journal string
	// Linger is how long an instance without an allocation is kept, because the next
	// container often wants the same one and cutting takes time. 0 keeps none.
	Linger time.Duration
	// Manager names another program that manages MIG on this node, such as
	// "nvidia.com/mig.config.state=success"; empty for none. Asked before each change.
	Manager func() string
	// Busy is told each time that an instance cannot be removed because a process uses
	// it, for a metric. It must not call back.
	Busy func(Placement)
	// Boot identifies the boot of the node; empty for the kernel's own ID.
	Boot string
	// Now is the clock; nil for the real one.
	Now func() time.Time
	// Log; nil for slog.Default.
	Log *slog.Logger
}

// check fills in defaults and names the field that is wrong.
func (o Options) check() (Options, error) {
	if !filepath.IsAbs(o.Journal) {
		return o, fmt.Errorf("mig.journal: must be an absolute path, is %q", o.Journal)
	}
	if o.Manager == nil {
		o.Manager = func() string { return "" }
	}
	if o.Busy == nil {
		o.Busy = func(Placement) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Boot == "" {
		boot, err := bootID()
		if err != nil {
			return o, fmt.Errorf("mig: boot ID: %w", err)
		}
		o.Boot = boot
	}
	return o, nil
}
