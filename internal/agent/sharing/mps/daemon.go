package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// daemon keeps the control daemon of one GPU running, from the first share to the last.
type daemon struct {
	gpu     GPU
	options *Options
	control control
	leave   context.CancelFunc
	done    chan struct{} // closed when supervision has ended

	mu sync.Mutex
	// stop: the daemon is to be shut down when supervision ends, and not left for the
	// next agent.
	stop    bool
	up      bool
	last    error         // why it is not up
	changed chan struct{} // closed when up or last change
	shares  []Share
}

// newDaemon is a GPU's daemon, not supervised.
func newDaemon(gpu GPU, options *Options) *daemon {
	return &daemon{gpu: gpu, options: options, done: make(chan struct{}), changed: make(chan struct{}),
		control: control{options.Control, options.pipe(gpu.UUID), options.AnswerWithin}}
}

// supervise begins to supervise a GPU's daemon.
func supervise(gpu GPU, options *Options) *daemon {
	d := newDaemon(gpu, options)
	ctx, cancel := context.WithCancel(context.Background())
	d.leave = cancel
	go d.run(ctx)
	return d
}

// run starts the daemon again and again, with a pause that doubles while it does not
// last.
func (d *daemon) run(ctx context.Context) {
	defer close(d.done)
	pause := d.options.BackoffMin
	for {
		p, err := d.launch(ctx)
		if err == nil {
			err = d.prepare(ctx)
		}
		if err == nil {
			began := time.Now()
			d.set(true, nil)
			d.options.Hooks.Ready(d.gpu.UUID)
			err = d.watch(ctx, p)
			if ctx.Err() != nil {
				break
			}
			d.died(err)
			if time.Since(began) > d.options.BackoffMax {
				pause = d.options.BackoffMin
			}
		} else {
			if ctx.Err() != nil {
				break
			}
			d.set(false, err)
			d.options.Log.Error("Could not start the MPS daemon; will retry", "gpu", d.gpu.UUID, "after", pause, "err", err)
			d.options.Hooks.Failed(d.gpu.UUID, err)
		}
		kill(strays(d.options.Control, d.control.pipe))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			break
		}
		pause = min(2*pause, d.options.BackoffMax)
	}
	d.mu.Lock()
	stop := d.stop
	d.mu.Unlock()
	d.set(false, errors.New("stopped"))
	if stop {
		d.shutdown()
	}
}

// died tells about a daemon that ended by itself. Its clients end with it.
func (d *daemon) died(reason error) {
	d.mu.Lock()
	death := Death{GPU: d.gpu.UUID, Reason: reason, Shares: slices.Clone(d.shares)}
	d.mu.Unlock()
	d.set(false, reason)
	d.options.Log.Error("MPS daemon died; the programs of its containers on this GPU ended with it",
		"gpu", d.gpu.UUID, "containers", holdersOf(death.Shares), "err", reason)
	d.options.Hooks.Died(death)
}

// prepare sets the daemon's own limits and starts its server, so that the first client
// does not wait for it and, in exclusive mode, no other process takes the device before.
func (d *daemon) prepare(ctx context.Context) error {
	d.mu.Lock()
	l := ceiling(d.gpu, d.shares)
	d.mu.Unlock()
	if l.milli > 0 {
		if err := d.control.limit(ctx, l); err != nil {
			return err
		}
	}
	if !d.options.MultiUser {
		return nil // which user's server is needed is not known yet
	}
	if servers, err := d.control.servers(ctx); err != nil || len(servers) > 0 {
		return err
	}
	_, err := d.control.ask(ctx, "start_server -uid 0")
	return err
}

// watch returns why the daemon no longer serves, or nil when the context ended.
func (d *daemon) watch(ctx context.Context, p *process) error {
	tick := time.NewTicker(d.options.HealthEvery)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.exited:
			return fmt.Errorf("daemon ended: %s", *p.status)
		case <-tick.C:
		}
		_, err := d.control.servers(ctx)
		if err == nil {
			missed = 0
			continue
		}
		if !isDaemon(p.pid, d.options.Control, d.control.pipe) {
			return fmt.Errorf("process %d is gone: %w", p.pid, err)
		}
		if errors.Is(err, errNotAsked) {
			continue
		}
		if missed++; missed >= d.options.Misses {
			return err
		}
	}
}

// share makes the daemon know its shares, and allow the most that any of them needs.
func (d *daemon) share(ctx context.Context, shares []Share) error {
	d.mu.Lock()
	before := ceiling(d.gpu, d.shares)
	d.shares = slices.Clone(shares)
	after, up := ceiling(d.gpu, d.shares), d.up
	d.mu.Unlock()
	if !up || before == after {
		return nil // prepare sets it
	}
	return d.control.limit(ctx, after)
}

// ready waits until the daemon serves.
func (d *daemon) ready(ctx context.Context) error {
	for {
		d.mu.Lock()
		up, last, changed := d.up, d.last, d.changed
		d.mu.Unlock()
		if up {
			return nil
		}
		select {
		case <-changed:
		case <-d.done:
			return fmt.Errorf("MPS daemon of %s: stopped", d.gpu.UUID)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("MPS daemon of %s is not ready: %w", d.gpu.UUID, ctx.Err()), last)
		}
	}
}

func (d *daemon) set(up bool, last error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.up, d.last = up, last
	close(d.changed)
	d.changed = make(chan struct{})
}

// end ends supervision; stop also ends the daemon.
func (d *daemon) end(stop bool) {
	d.mu.Lock()
	d.stop = stop
	d.mu.Unlock()
	d.leave()
	<-d.done
}

// shutdown ends the daemon and gives the GPU back.
func (d *daemon) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*d.options.AnswerWithin)
	defer cancel()
	_, err := d.control.ask(ctx, "quit")
	for deadline := time.Now().Add(d.options.AnswerWithin); err == nil && time.Now().Before(deadline); {
		if len(strays(d.options.Control, d.control.pipe)) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	left := strays(d.options.Control, d.control.pipe)
	kill(left)
	waitGone(left, d.options.AnswerWithin)
	if d.options.Exclusive != nil {
		if err := d.options.Exclusive(ctx, d.gpu.UUID, false); err != nil {
			d.options.Log.Error("Could not set the compute mode back to default", "gpu", d.gpu.UUID, "err", err)
		}
	}
	if err := os.Remove(filepath.Join(d.control.pipe, pidFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.options.Log.Error("Could not remove the MPS daemon's files", "gpu", d.gpu.UUID, "err", err)
	}
	d.options.Log.Info("MPS daemon stopped", "gpu", d.gpu.UUID, "killed", left)
}

// waitGone waits until processes that were killed are gone.
func waitGone(pids []int, within time.Duration) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil }) {
			return
		}
	}
}
