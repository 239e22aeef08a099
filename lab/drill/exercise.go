package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// exercise is one fault under way.
type exercise struct {
	ctx context.Context
	w   *World
	// node is where it happens, when it happens on one; pod is one of the service there.
	node   string
	pod    *v1.Pod
	limit  time.Duration // for each step
	o      *Options
	result *Result
}

// steps are what is done and awaited for a fault. What is not needed stays empty.
type steps struct {
	inject func() error
	// detected holds once the fault is acted on, restored once the service is whole again;
	// check then says what is wrong nevertheless.
	detected, restored condition
	check              func() error
	// repair is done then, and returned holds once what was broken is back in service.
	repair   func() error
	returned condition
	// clear ends what the fault has left.
	clear func() error
	// harmless: the service stays whole, so that restored counts from the repair on.
	harmless bool
}

// condition is something to wait for, by a name for messages.
type condition struct {
	what  string
	holds func() (bool, error)
}

// do carries the steps out, and measures.
func (x *exercise) do(s *steps) (err error) {
	began := time.Now()
	await := func(c condition, took *float64) {
		if err == nil && c.holds != nil {
			if err = x.await(c); err == nil {
				*took = time.Since(began).Seconds()
			}
		}
	}
	call := func(f func() error) {
		if err == nil && f != nil {
			err = f()
		}
	}
	repair := func() {
		began = time.Now()
		call(s.repair)
	}
	call(s.inject)
	await(s.detected, &x.result.Detected)
	if s.harmless {
		call(s.check)
		repair()
		await(s.restored, &x.result.Restored)
		return err
	}
	await(s.restored, &x.result.Restored)
	call(s.check)
	repair()
	await(s.returned, &x.result.Returned)
	if s.clear != nil {
		err = errors.Join(err, s.clear())
	}
	return err
}

// await polls until a condition holds. An error of the API server is as if it did not
// hold: it may be the one that was killed.
func (x *exercise) await(c condition) error {
	deadline := time.Now().Add(x.limit)
	var last error
	for {
		ok, err := c.holds()
		if ok && err == nil {
			return nil
		}
		if err != nil {
			last = err
		}
		if time.Now().After(deadline) || x.ctx.Err() != nil {
			return fmt.Errorf("%s: not within %s (%w)", c.what, x.limit, errors.Join(last, x.ctx.Err()))
		}
		wait(x.ctx, 100*time.Millisecond)
	}
}

// whole: all pods of the service run, and each is fine.
func (x *exercise) whole(fine func(*v1.Pod) bool) condition {
	return condition{"the service", func() (bool, error) {
		pods, err := x.w.service(x.ctx)
		if err != nil || len(pods) != x.o.pods() {
			return false, err
		}
		for i := range pods {
			if pods[i].Status.Phase != v1.PodRunning || !fine(&pods[i]) {
				return false, nil
			}
		}
		return true, nil
	}}
}
