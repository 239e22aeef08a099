package nvml

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Options say where the driver is and how patient to be with it. The zero value is a
// driver that is installed on the node's own file system.
type Options struct {
	// DriverRoot is the folder of the node below which the driver is installed: / by
	// default, /run/nvidia/driver where a container installs it.
	DriverRoot string
	// DriverRootHere is where this process sees DriverRoot; empty when at the same path.
	DriverRootHere string
	// DevRoot is the folder of the node that holds dev/nvidia0 and the others; / by
	// default.
	DevRoot string
	// SysRoot and ProcRoot are where sysfs and procfs are mounted; /sys and /proc by
	// default.
	SysRoot, ProcRoot string
	// IMEXChannels are the channels that every container gets, where the node has them.
	IMEXChannels []int
	// CDIHook is the path of NVIDIA's nvidia-cdi-hook on the node, which refreshes a
	// container's library cache. Empty: looked for in the usual folders. Where there is
	// none, no hook is asked for and a container must search the driver's library folder
	// by itself (LD_LIBRARY_PATH, as NVIDIA's images do).
	CDIHook string

	// Timeout is how long a call that reads may take, ChangeTimeout one that changes the
	// device (MIG, reset). 5 s and 60 s by default. A context's deadline may be earlier.
	Timeout, ChangeTimeout time.Duration

	// Observe, if set, is told of each call of the driver: the C function's name, how it
	// ended (nil for success; errors.Is with device.ErrNotSupported for what this device
	// cannot do) and how long it took. It must be quick and may be called at the same
	// time from several goroutines.
	Observe func(call string, err error, took time.Duration)
	// Log is for what has no other way out; slog.Default when nil.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.DriverRoot = cmp.Or(o.DriverRoot, "/")
	o.DriverRootHere = cmp.Or(o.DriverRootHere, o.DriverRoot)
	o.DevRoot = cmp.Or(o.DevRoot, "/")
	o.SysRoot = cmp.Or(o.SysRoot, "/sys")
	o.ProcRoot = cmp.Or(o.ProcRoot, "/proc")
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.ChangeTimeout <= 0 {
		o.ChangeTimeout = time.Minute
	}
	if o.Observe == nil {
		o.Observe = func(string, error, time.Duration) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// IMEXPath is the device node of an IMEX channel.
func IMEXPath(channel int) string {
	return fmt.Sprintf("/dev/nvidia-caps-imex-channels/channel%d", channel)
}
