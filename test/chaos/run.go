package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Run does one run. The error says that the run itself failed; what it found is in
// the result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := os.RemoveAll(recordings(cfg.Dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(recordings(cfg.Dir), 0o700); err != nil {
		return nil, err
	}
	start, cancel := context.WithTimeout(ctx, 3*time.Minute)
	w, err := newWorld(start, cfg)
	cancel()
	if err != nil {
		return nil, err
	}
	history, err := os.Create(filepath.Join(cfg.Dir, "history.log"))
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	w.checker.Log(history)
	result, err := w.play(ctx)
	w.checker.Log(nil)
	if err := errors.Join(err, w.Stop(), history.Close()); err != nil {
		return result, err
	}
	if result.Recordings, err = playAll(cfg.Dir); err != nil {
		return result, err
	}
	return result, result.Save(cfg.Dir)
}

// play is the run on a cluster that stands.
func (w *world) play(ctx context.Context) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	l, f := newLoad(w), newFaults(w)
	background.Go(func() { w.follow(ctx) })
	background.Go(func() { w.able.follow(ctx) })
	background.Go(func() { eachTick(ctx, 100*time.Millisecond, func() { w.checker.Tick(time.Now()) }) })
	background.Go(func() { l.run(ctx) })
	failed := make(chan error, 1)
	background.Go(func() {
		select {
		case err := <-w.Failed():
			failed <- err
			cancel()
		case <-ctx.Done():
		}
	})
	w.say("the cluster stands; %s of load and faults begin", w.cfg.Duration)
	result := &Result{Seed: w.cfg.Seed, Duration: w.cfg.Duration, Lease: w.cfg.Lease, Load: w.cfg.Load}
	if err := f.run(ctx, time.Now().Add(w.cfg.Duration)); err != nil {
		return nil, err
	}
	var err error
	if result.Left, result.AllBound, err = l.settle(ctx); err != nil {
		return nil, err
	}
	select {
	case err := <-failed:
		return nil, fmt.Errorf("a process was given up: %w", err)
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	result.Faults, result.Units = f.done, l.made
	result.Summary, result.Breaches = w.checker.Summary(), w.checker.Breaches(time.Now())
	result.Restarts = map[string]int{}
	for _, p := range w.Processes() {
		result.Restarts[p.Name()] = p.Restarts()
	}
	return result, nil
}
