//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// guard stands between the agent and the driver. A call of the driver cannot be
// interrupted; the guard runs each on a goroutine of its own and stops waiting for it
// when its time is over.
type guard struct {
	observe func(call string, err error, took time.Duration)
	// lookup says whether the loaded library has a function.
	lookup func(symbol string) error
	// hung counts calls that were given up and have not returned yet.
	hung atomic.Int64

	mu      sync.Mutex
	symbols map[string]bool
}

// lane is a queue for calls that must not overlap: one for each device, one for the
// system, one for events. A call that was given up keeps its lane until it returns, so a
// device that hangs costs one goroutine and not one for each try.
type lane struct {
	name string
	// turn holds one token while a call runs.
	turn chan struct{}
	mu   sync.Mutex
	// stuck is the call that was given up and has not returned, nil when there is none.
	stuck *givenUp
}

type givenUp struct {
	call  string
	since time.Time
}

func newLane(name string) *lane { return &lane{name: name, turn: make(chan struct{}, 1)} }

// call runs fn, a call of the C function that name says, on a lane and waits for it, no
// longer than limit and the context allow.
func call[T any](ctx context.Context, g *guard, l *lane, limit time.Duration, name string, fn func() (T, nvml.Return)) (T, error) {
	var zero T
	start := time.Now()
	fail := func(err error) (T, error) {
		err = fmt.Errorf("%s on %s: %w", name, l.name, err)
		g.observe(name, err, time.Since(start))
		return zero, err
	}
	if !g.has(name) {
		return fail(fmt.Errorf("%w: the driver has no such function", device.ErrNotSupported))
	}
	if s := l.hanging(); s != nil {
		return fail(fmt.Errorf("%w: %s has not returned since %s", device.ErrTimeout, s.call, s.since.Format(time.TimeOnly)))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()

	select {
	case l.turn <- struct{}{}:
	case <-timer.C:
		return fail(fmt.Errorf("%w: waited %s for the call before", device.ErrTimeout, limit))
	case <-ctx.Done():
		return fail(ended(ctx))
	}
	type result struct {
		value T
		ret   nvml.Return
	}
	done := make(chan result, 1) // so that a call that was given up can end
	finished := false            // guarded by l.mu
	go func() {
		value, ret := fn()
		l.mu.Lock()
		finished = true
		if l.stuck != nil {
			l.stuck = nil
			g.hung.Add(-1)
		}
		l.mu.Unlock()
		done <- result{value, ret}
		<-l.turn
	}()
	giveUp := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !finished {
			l.stuck = &givenUp{call: name, since: start}
			g.hung.Add(1)
		}
	}

	select {
	case r := <-done:
		if err := returned(r.ret); err != nil {
			return fail(err)
		}
		g.observe(name, nil, time.Since(start))
		return r.value, nil
	case <-timer.C:
		giveUp()
		return fail(fmt.Errorf("%w within %s", device.ErrTimeout, limit))
	case <-ctx.Done():
		err := ended(ctx)
		if errors.Is(err, device.ErrTimeout) {
			giveUp() // and not where the caller only lost interest
		}
		return fail(err)
	}
}

// hanging is the call that keeps the lane, nil when there is none.
func (l *lane) hanging() *givenUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck
}

// ended says why a context ended: a deadline means that the driver was too slow.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", device.ErrTimeout, ctx.Err())
	}
	return ctx.Err()
}

// has says whether the driver has a function.
func (g *guard) has(symbol string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.symbols[symbol]
	if !ok {
		known = g.lookup(symbol) == nil
		if g.symbols == nil {
			g.symbols = map[string]bool{}
		}
		g.symbols[symbol] = known
	}
	return known
}

// returned is the error of a return value, nil for success: the driver's own, wrapped in
// one of device's where one fits.
func returned(ret nvml.Return) error {
	var kind error
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH,
		nvml.ERROR_DEPRECATED, nvml.ERROR_NO_DATA, nvml.ERROR_VGPU_ECC_NOT_SUPPORTED:
		kind = device.ErrNotSupported
	case nvml.ERROR_IN_USE, nvml.ERROR_INSUFFICIENT_RESOURCES:
		kind = device.ErrBusy
	case nvml.ERROR_NOT_FOUND:
		kind = device.ErrNotFound
	case nvml.ERROR_TIMEOUT:
		kind = device.ErrTimeout
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_UNINITIALIZED,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		kind = device.ErrNoDriver
	default:
		return ret
	}
	return fmt.Errorf("%w: %w", kind, ret)
}

// broken says whether an error means that no other call on the device can be expected to
// work: it is gone, it hangs, or the driver is.
func broken(err error) bool {
	return errors.Is(err, nvml.ERROR_GPU_IS_LOST) || errors.Is(err, device.ErrTimeout) ||
		errors.Is(err, device.ErrNoDriver) || errors.Is(err, context.Canceled)
}
