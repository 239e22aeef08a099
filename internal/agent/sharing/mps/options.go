package mps

import (
	"cmp"
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
	// Failed: a daemon could not be started; the start is retried.
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

// check fills in the defaults and names the field that is wrong, of those that users set.
func (o Options) check() (Options, error) {
	var err error
	if o.Control, err = exec.LookPath(cmp.Or(o.Control, "nvidia-cuda-mps-control")); err != nil {
		return o, fmt.Errorf("mps.control: %w", err)
	}
	o.StateDir, o.ShmDir = cmp.Or(o.StateDir, "/run/tangram/mps"), cmp.Or(o.ShmDir, "/dev/shm")
	for field, dir := range map[string]string{"stateDir": o.StateDir, "shmDir": o.ShmDir} {
		if !filepath.IsAbs(dir) {
			return o, fmt.Errorf("mps.%s: must be an absolute path, is %q", field, dir)
		}
	}
	o.StartWithin = cmp.Or(o.StartWithin, 10*time.Second)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, 10*time.Second)
	o.HealthEvery = cmp.Or(o.HealthEvery, 10*time.Second)
	o.BackoffMin, o.BackoffMax = cmp.Or(o.BackoffMin, time.Second), cmp.Or(o.BackoffMax, time.Minute)
	o.Misses = cmp.Or(o.Misses, 3)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Hooks.Died == nil {
		o.Hooks.Died = func(Death) {}
	}
	if o.Hooks.Failed == nil {
		o.Hooks.Failed = func(string, error) {}
	}
	if o.Hooks.Ready == nil {
		o.Hooks.Ready = func(string) {}
	}
	return o, nil
}
