package mps

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"time"
)

// Options are the settings; zero values have the defaults that are given.
type Options struct {
	// Control is the program nvidia-cuda-mps-control: a path, or a name that is looked
	// up. Default nvidia-cuda-mps-control.
	Control string
	// StateDir has a folder for each GPU with the daemon's pipe and log. Every user must
	// be able to reach it. Default /run/tangram/mps.
	StateDir string
	// ShmDir is the daemon's own /dev/shm as the node sees it; containers get it as
	// theirs, because clients and server exchange data there. Default /dev/shm, which is
	// right when the agent runs on the node itself. In a pod, mount a folder of the node
	// (a tmpfs) at the agent's /dev/shm and name that folder here.
	ShmDir string
	// MultiUser serves clients of all users at the same time, as root. Without it one
	// user's clients wait until those of another have ended.
	MultiUser bool
	// ReadOnlyPipe mounts the pipe folder read-only into containers, so that root in a
	// container cannot remove or replace the daemon's sockets.
	ReadOnlyPipe bool
	// Exclusive sets compute mode EXCLUSIVE_PROCESS of a GPU, or the default mode. nil:
	// it is not set, and a container can bypass MPS.
	Exclusive func(ctx context.Context, gpu string, on bool) error
	Hooks     Hooks
	Log       *slog.Logger

	// StartWithin is how long a daemon may take until it answers, default 10 s.
	// AnswerWithin is for each command, default 10 s.
	StartWithin, AnswerWithin time.Duration
	// HealthEvery is the pause between two questions to a daemon, default 10 s; each runs
	// a small program. The end of a daemon that this agent started is seen at once.
	HealthEvery time.Duration
	// Misses is how many questions in a row must stay without an answer until a daemon
	// that runs counts as dead, default 3. It is killed then, with all its clients; a
	// machine that is only slow must not come to that, and clients that are connected
	// do not need the daemon.
	Misses int
	// BackoffMin and BackoffMax bound the pause before a daemon is started again,
	// default 1 s and 1 min.
	BackoffMin, BackoffMax time.Duration
}

// Hooks are told what happens, for events and metrics. They are called from the
// supervising goroutine and must not block or call back. Each may be nil.
type Hooks struct {
	// Died: a daemon ended or does not answer, and its clients ended with it.
	Died func(Death)
	// Failed: a daemon could not be started; it is tried again.
	Failed func(gpu string, err error)
	// Ready: a daemon serves, for the first time or again.
	Ready func(gpu string)
}

// Death is the end of a daemon that was not asked to end.
type Death struct {
	GPU    string
	Reason error
	// Shares are the containers whose programs on this GPU ended with it.
	Shares []Share
}

// check fills in the defaults and names the field that is wrong.
func (o Options) check() (Options, error) {
	if o.Control == "" {
		o.Control = "nvidia-cuda-mps-control"
	}
	path, err := exec.LookPath(o.Control)
	if err != nil {
		return o, fmt.Errorf("mps.control: %w", err)
	}
	o.Control = path
	for _, dir := range []struct {
		field, standard string
		value           *string
	}{{"stateDir", "/run/tangram/mps", &o.StateDir}, {"shmDir", "/dev/shm", &o.ShmDir}} {
		if *dir.value == "" {
			*dir.value = dir.standard
		}
		if !filepath.IsAbs(*dir.value) {
			return o, fmt.Errorf("mps.%s: must be an absolute path, is %q", dir.field, *dir.value)
		}
	}
	for _, limit := range []struct {
		field    string
		value    *time.Duration
		standard time.Duration
	}{
		{"startWithin", &o.StartWithin, 10 * time.Second},
		{"answerWithin", &o.AnswerWithin, 10 * time.Second},
		{"healthEvery", &o.HealthEvery, 10 * time.Second},
		{"backoffMin", &o.BackoffMin, time.Second},
		{"backoffMax", &o.BackoffMax, time.Minute},
	} {
		if *limit.value == 0 {
			*limit.value = limit.standard
		}
		if *limit.value < 0 {
			return o, fmt.Errorf("mps.%s: must not be negative, is %v", limit.field, *limit.value)
		}
	}
	if o.Misses == 0 {
		o.Misses = 3
	}
	if o.Misses < 0 {
		return o, fmt.Errorf("mps.misses: must not be negative, is %d", o.Misses)
	}
	if o.BackoffMax < o.BackoffMin {
		return o, fmt.Errorf("mps.backoffMax: must be at least backoffMin (%v), is %v", o.BackoffMin, o.BackoffMax)
	}
	if o.Hooks.Died == nil {
		o.Hooks.Died = func(Death) {}
	}
	if o.Hooks.Failed == nil {
		o.Hooks.Failed = func(string, error) {}
	}
	if o.Hooks.Ready == nil {
		o.Hooks.Ready = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}
