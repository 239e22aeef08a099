package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

const (
	// Alone is the flag of a component that has no replicas: it need not wait to lead.
	Alone = "--leader-elect=false"
	// SchedulerUser is the user as which gpu-scheduler calls the API server.
	SchedulerUser = "system:tangram:gpu-scheduler"
)

// Tangram are a scheduler, with a configuration or nil, and a controller, each alone.
func Tangram(scheduler []byte) []local.Component {
	return []local.Component{{Name: "gpu-scheduler", Config: scheduler, Flags: []string{Alone}}, {Name: "gpu-controller", Flags: []string{Alone}}}
}

// Elect are the flags of replicas that lead by a lease of a duration.
func Elect(lease time.Duration) []string {
	return []string{
		"--leader-elect=true", "--leader-elect-lease-duration=" + lease.String(),
		"--leader-elect-renew-deadline=" + (lease * 2 / 3).String(), "--leader-elect-retry-period=" + (lease / 6).String(),
	}
}

// QueueArguments is the default configuration of gpu-scheduler with more arguments of
// GPUQueue, as YAML lines.
func QueueArguments(lines ...string) []byte {
	const before = "      preemption: true\n"
	text := string(config.Scheduler())
	at := strings.Index(text, before) + len(before)
	return []byte(text[:at] + "      " + strings.Join(lines, "\n      ") + "\n" + text[at:])
}

// Start starts a component beside those of its name that run, and waits until it is ready.
func (w *World) Start(c local.Component) *local.Serving {
	w.T.Helper()
	if c.As == "" {
		c.As = fmt.Sprintf("%s-%d", c.Name, w.runs.Add(1))
	}
	p, err := w.Launch(context.Background(), c)
	w.Must(err)
	return p
}

// Scheduler starts gpu-scheduler with a configuration (nil: the default) and flags; without
// any it is alone.
func (w *World) Scheduler(configuration []byte, flags ...string) *local.Serving {
	w.T.Helper()
	if configuration == nil {
		configuration = config.Scheduler()
	}
	return w.Start(local.Component{Name: "gpu-scheduler", Config: configuration, Flags: orAlone(flags)})
}

// Controller starts gpu-controller with flags; without any it is alone.
func (w *World) Controller(flags ...string) *local.Serving {
	w.T.Helper()
	return w.Start(local.Component{Name: "gpu-controller", Ready: "/readyz", Flags: orAlone(flags)})
}

func orAlone(flags []string) []string {
	if len(flags) == 0 {
		return []string{Alone}
	}
	return flags
}

// CPUTime is the processor time that a program has used so far. The test is skipped where
// the system does not tell.
func (w *World) CPUTime(p *local.Process) time.Duration {
	w.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		w.T.Skipf("skipped: %v", err)
	}
	// After the name, which ends with the last ")", utime and stime are fields 12 and 13.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100)
}

// Log are the lines of a program's log that have some words; all when there are none.
func (w *World) Log(p *local.Process, words string) (lines []string) {
	w.T.Helper()
	data, err := os.ReadFile(p.Log())
	w.Must(err)
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, words) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
