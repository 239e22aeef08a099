package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is one kind of fault. run does it and returns when it is over; the moment it
// returns is the fault's end, from which recovery is measured.
type fault struct {
	name string
	run  func(ctx context.Context, f *faults) error
}

// faultTable are all kinds of faults.
func faultTable() []fault {
	return []fault{
		{"leader-kill", func(ctx context.Context, f *faults) error { return f.replica(true, f.kill) }},
		{"leader-stop", func(ctx context.Context, f *faults) error { return f.replica(true, f.longPause(ctx)) }},
		{"standby-kill", func(ctx context.Context, f *faults) error { return f.replica(false, f.kill) }},
		{"standby-stop", func(ctx context.Context, f *faults) error { return f.replica(false, f.longPause(ctx)) }},
		{"controller-kill", func(ctx context.Context, f *faults) error { return f.kill(controller) }},
		{"controller-stop", func(ctx context.Context, f *faults) error { return f.longPause(ctx)(controller) }},
		{"apiserver-kill", func(ctx context.Context, f *faults) error { return f.outage(ctx, f.kill(apiServer)) }},
		{"apiserver-stop", func(ctx context.Context, f *faults) error {
			return f.outage(ctx, f.pause(ctx, apiServer, f.stopTime()/2))
		}},
		{"etcd-kill", func(ctx context.Context, f *faults) error { return f.outage(ctx, f.kill(etcd)) }},
		{"etcd-stop", func(ctx context.Context, f *faults) error {
			return f.outage(ctx, f.pause(ctx, etcd, f.stopTime()/2))
		}},
		{"hand-bind", func(ctx context.Context, f *faults) error { return f.bindByHand(ctx) }},
		{"node-loss", func(ctx context.Context, f *faults) error { return f.loseNodes(ctx) }},
	}
}

// FaultKinds are the names of all faults.
func FaultKinds() []string {
	var names []string
	for _, f := range faultTable() {
		names = append(names, f.name)
	}
	return names
}

// faults does one fault after the other and measures recovery.
type faults struct {
	w      *world
	random *rand.Rand
	deck   []string // the kinds still to come before all come again
	done   []Fault
	hand   int
}

func newFaults(w *world) *faults {
	return &faults{w: w, random: rand.New(rand.NewPCG(w.cfg.Seed, 2))}
}

// run works until a moment; a fault that has begun is brought to its end.
func (f *faults) run(ctx context.Context, until time.Time) error {
	for {
		pause := f.w.cfg.Pause + time.Duration(f.random.Int64N(int64(2*f.w.cfg.Pause)+1))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(pause, time.Until(until))):
		}
		if !time.Now().Before(until) {
			return nil
		}
		name := f.next()
		for _, kind := range faultTable() {
			if kind.name != name {
				continue
			}
			if err := f.one(ctx, kind); err != nil {
				return fmt.Errorf("fault %s: %w", name, err)
			}
		}
	}
}

// next takes a kind from a shuffled deck, in which each is as often as its weight says:
// also a short run meets every kind.
func (f *faults) next() string {
	if len(f.deck) == 0 {
		for _, name := range slices.Sorted(maps.Keys(f.w.cfg.Faults)) {
			f.deck = append(f.deck, slices.Repeat([]string{name}, f.w.cfg.Faults[name])...)
		}
		f.random.Shuffle(len(f.deck), func(i, j int) { f.deck[i], f.deck[j] = f.deck[j], f.deck[i] })
	}
	if len(f.deck) == 0 {
		return ""
	}
	name := f.deck[0]
	f.deck = f.deck[1:]
	return name
}

// one does a fault and waits for the next binding.
func (f *faults) one(ctx context.Context, kind fault) error {
	begin := time.Now()
	f.w.checker.FaultBegins(begin, kind.name, "")
	err := kind.run(ctx, f)
	end := time.Now()
	f.w.checker.FaultEnds(end, kind.name)
	if err != nil {
		return err
	}
	record := f.recovery(ctx, Fault{Kind: kind.name, Begin: begin, End: end})
	f.done = append(f.done, record)
	f.w.say("%-16s for %5.1fs, next binding %.2fs after its begin, %.2fs after its end", kind.name,
		end.Sub(begin).Seconds(), record.AfterBegin.Seconds(), record.AfterEnd.Seconds())
	return nil
}

// recovery waits for the next binding. Where a fault takes the leader or the API
// server away, one that was under way before does not count.
func (f *faults) recovery(ctx context.Context, record Fault) Fault {
	const limit = time.Minute
	takes := !strings.HasPrefix(record.Kind, "standby-") && !strings.HasPrefix(record.Kind, "controller-")
	for time.Since(record.End) < limit && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		begin, end := record.Begin, record.End
		if takes {
			again, able := f.w.able.sinceWhen()
			if !able {
				continue
			}
			begin, end = latest(begin, again), latest(end, again)
		}
		if at, ok := f.w.checker.FirstBind(end); ok {
			record.Recovered, record.AfterEnd = true, at.Sub(record.End)
			at, _ = f.w.checker.FirstBind(begin)
			record.AfterBegin = at.Sub(record.Begin)
			break
		}
	}
	return record
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// stopTime is how long a process is stopped: longer than the lease.
func (f *faults) stopTime() time.Duration {
	lease := f.w.cfg.Lease
	return lease*4/3 + time.Duration(f.random.Int64N(int64(lease*4/3)))
}

// kill is kill -9; the process is restarted by its supervisor.
func (f *faults) kill(name string) error { return f.signal(name, syscall.SIGKILL) }

// pause stops a process and lets it continue. Whatever happens, it continues.
func (f *faults) pause(ctx context.Context, name string, d time.Duration) error {
	if err := f.signal(name, syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return f.signal(name, syscall.SIGCONT)
}

// longPause stops a process for longer than the lease.
func (f *faults) longPause(ctx context.Context) func(string) error {
	return func(name string) error { return f.pause(ctx, name, f.stopTime()) }
}

// replica does something to the scheduler that leads, or to the other.
func (f *faults) replica(leads bool, do func(string) error) error {
	leader, other, err := f.w.replicas()
	if err != nil {
		return err
	}
	if leads {
		return do(leader)
	}
	return do(other)
}

// signal waits for a process between two runs.
func (f *faults) signal(name string, sig syscall.Signal) error {
	if sig != syscall.SIGCONT {
		switch name {
		case schedulerA, schedulerB:
			f.w.able.lost(noLeader)
		case apiServer, etcd:
			f.w.able.lost(noAPI)
		}
	}
	f.w.checker.Note(time.Now(), fmt.Sprintf("%s to %s", sig, name))
	var err error
	for range 200 {
		if err = f.w.Process(name).Signal(sig); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// outage waits until the API server serves again: that is when the fault ends.
func (f *faults) outage(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	f.w.able.lost(noAPI) // until it answers a question asked from now on
	return f.w.able.awaitAPI(ctx, time.Minute)
}
