package main

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

// health provokes what a program can provoke, and listens. stop ends Watch.
func (p *probe) health(s *report.Section, stop func()) error {
	for _, e := range p.besides(0) {
		s.Printf("- before anything was provoked here: %+v", e)
	}
	for _, fault := range []string{"address", "misaligned", "trap"} {
		if err := p.provoke(s, fault, "", device.Event{GPUInstance: -1, ComputeInstance: -1}); err != nil {
			return err
		}
	}
	r, err := p.work("", "-seconds", "0.2")
	s.Check(err == nil, "the next program works (%d SMs): %v", r.SMs, err)
	sampled, err := p.sample()
	if err != nil {
		return err
	}
	s.Check(sampled.Recovery == device.RecoveryNone, "the driver asks for no recovery: %q", sampled.Recovery)

	began := time.Now()
	stop()
	err = <-p.ended
	s.Check(err == nil && time.Since(began) < 2*time.Second, "Watch ends %s after its context: %v", time.Since(began).Round(time.Millisecond), err)

	j, err := p.start(p.ctx, "", "-seconds", "2")
	if err != nil {
		return err
	}
	<-j.ready
	err = p.backend.Reset(p.ctx, p.gpu.UUID)
	s.Check(errors.Is(err, device.ErrBusy), "a reset while a program runs is refused: %v", err)
	if _, err := j.wait(); err != nil {
		return err
	}
	if !p.reset {
		s.Printf("- a reset of the idle device was not tried (-reset)")
		return nil
	}
	began = time.Now()
	err = p.backend.Reset(p.ctx, p.gpu.UUID)
	s.Check(err == nil, "a reset of the idle device took %s: %v", time.Since(began).Round(time.Millisecond), err)
	sampled, err = p.sample()
	s.Check(err == nil && len(sampled.Values) > 0, "after it the device is sampled again: %d values, %v", len(sampled.Values), err)
	return nil
}

// faults are what load can be told to do wrong.
var faults = map[string]struct {
	what string
	xid  int
}{
	"address":    {"a kernel that writes to an unmapped address", 31},
	"misaligned": {"a kernel that writes a word to an address that is no multiple of four", 13},
	"trap":       {"a kernel that executes a trap instruction", 43},
}

// provoke makes a program fail and expects the event of it, on the device or on the MIG
// instance of where.
func (p *probe) provoke(s *report.Section, fault, visible string, where device.Event) error {
	f := faults[fault]
	where.Kind, where.UUID, where.Code = device.XID, p.gpu.UUID, f.xid
	r, err := p.work(visible, "-fault", fault)
	if err != nil {
		return err
	}
	failed := time.UnixMicro(int64(r.FirstKernel * 1e6))
	var got device.Event
	select {
	case got = <-p.events:
	case <-time.After(5 * time.Second):
	}
	late := time.Since(failed).Round(time.Millisecond)
	s.Check(got == where, "%s: the program got %s; %s after came %+v", f.what, r.Error, late, got)
	more := map[int]int{}
	for _, e := range p.besides(700 * time.Millisecond) { // one fault may report several
		more[e.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(more)) {
		s.Printf("- besides: XID %d, %d times", code, more[code])
	}
	return nil
}

// besides are the events that have come, until none comes for a while.
func (p *probe) besides(quiet time.Duration) []device.Event {
	var out []device.Event
	for {
		select {
		case e := <-p.events:
			out = append(out, e)
		case <-time.After(quiet):
			return out
		}
	}
}
