package main

import (
	"context"
	"errors"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// health provokes what a program can provoke, and listens.
func (p *probe) health(s *section) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	events := make(chan device.Event, 100)
	ended := make(chan error, 1)
	go func() { ended <- p.backend.Watch(ctx, func(e device.Event) { events <- e }) }()
	time.Sleep(200 * time.Millisecond) // Watch says nothing when it has registered

	for _, test := range []struct {
		what, fault string
		code        int
	}{
		{"a kernel that writes to an address that is nobody's", "address", 31},
		{"a kernel that executes a trap instruction", "trap", 13},
	} {
		r, err := p.work("", "-fault", test.fault)
		failed := time.UnixMicro(int64(r.FirstKernel * 1e6))
		if err != nil {
			return err
		}
		got, late := await(events, 5*time.Second, failed)
		ok := got.Kind == device.XID && got.UUID == p.gpu.UUID && got.Code == test.code
		s.check(ok, "%s: the program got %s; the event %+v came %s after", test.what, r.Error, got, late.Round(time.Millisecond))
		for more := true; more; { // one fault may report several
			select {
			case e := <-events:
				s.printf("- besides: %+v", e)
			case <-time.After(700 * time.Millisecond):
				more = false
			}
		}
	}
	r, err := p.work("", "-seconds", "0.2")
	s.check(err == nil, "the next program works (%d SMs): %v", r.SMs, err)
	sampled, err := p.sample()
	if err != nil {
		return err
	}
	s.check(sampled.Recovery == device.RecoveryNone, "the driver asks for no recovery: %q", sampled.Recovery)

	began := time.Now()
	cancel()
	err = <-ended
	s.check(err == nil && time.Since(began) < 2*time.Second, "Watch ends %s after its context: %v", time.Since(began).Round(time.Millisecond), err)

	j, err := p.start(p.ctx, "", "-seconds", "2")
	if err != nil {
		return err
	}
	<-j.ready
	err = p.backend.Reset(p.ctx, p.gpu.UUID)
	s.check(errors.Is(err, device.ErrBusy), "a reset while a program runs is refused: %v", err)
	if _, err := j.wait(); err != nil {
		return err
	}
	if !p.reset {
		s.printf("- a reset of the idle device was not tried (-reset)")
		return nil
	}
	began = time.Now()
	err = p.backend.Reset(p.ctx, p.gpu.UUID)
	s.check(err == nil, "a reset of the idle device took %s: %v", time.Since(began).Round(time.Millisecond), err)
	sampled, err = p.sample()
	s.check(err == nil && len(sampled.Values) > 0, "after it the device is sampled again: %d values, %v", len(sampled.Values), err)
	return nil
}

func await(events <-chan device.Event, limit time.Duration, since time.Time) (device.Event, time.Duration) {
	select {
	case e := <-events:
		return e, time.Since(since)
	case <-time.After(limit):
		return device.Event{}, limit
	}
}
