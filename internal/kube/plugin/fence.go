package plugin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fence keeps a process from writing that may not lead any more. A process that was
// stopped and resumed does not know how long it slept: its leader election notices only
// when the next renewal fails, and meanwhile another replica leads. So a Binding is
// written only within the renew deadline of the last renewal that succeeded, counted
// from when that was asked for, by the monotonic clock.
//
// What slips through between the check and the write is found by the leader as a
// contested record, and healed.
type fence struct {
	// renewed is when the lease was last renewed, as a time since start; nil where there
	// is no leader election, and everything may be written.
	renewed  *atomic.Int64
	start    time.Time
	deadline time.Duration
	// seen is when any replica's renewal was last seen, as a time since start; lease is
	// for how long it counts.
	seen    atomic.Int64
	renewal atomic.Int64 // the renewal itself, by the lease's own clock
	lease   time.Duration
}

// watch makes the fence follow a leader election; nil: there is none.
func (f *fence) watch(le *leaderelection.LeaderElectionConfig) {
	if le == nil {
		return
	}
	f.renewed, f.start, f.deadline, f.lease = &atomic.Int64{}, time.Now(), le.RenewDeadline, le.LeaseDuration
	f.seen.Store(int64(-le.LeaseDuration))    // none was seen yet
	f.renewed.Store(int64(-le.RenewDeadline)) // it does not lead yet
	le.Lock = &fencedLock{le.Lock, f}
}

// check says why nothing may be written now.
func (f *fence) check() error {
	if f == nil || f.renewed == nil {
		return nil
	}
	if age := time.Since(f.start) - time.Duration(f.renewed.Load()); age > f.deadline {
		return fmt.Errorf("not written: the leader's lease was last renewed %s ago, and another replica may lead", age.Round(time.Millisecond))
	}
	return nil
}

// fresh says whether some replica holds a lease that is not over, as far as this process
// can see.
func (f *fence) fresh() bool {
	if f == nil || f.renewed == nil {
		return true
	}
	return time.Since(f.start)-time.Duration(f.seen.Load()) < f.lease
}

// observe takes note of the lease as another replica left it. Clocks differ, so what
// counts is when it was seen to change.
func (f *fence) observe(r *resourcelock.LeaderElectionRecord) {
	if at := r.RenewTime.UnixNano(); r.HolderIdentity != "" && f.renewal.Swap(at) != at {
		f.seen.Store(int64(time.Since(f.start)))
	}
}

// fencedLock takes note of renewals that succeed.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
}

// Get reads the lease.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.fence.observe(r)
	}
	return r, raw, err
}

// Create acquires the lease.
func (l *fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.noting(func() error { return l.Interface.Create(ctx, r) })
}

// Update acquires or renews the lease.
func (l *fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.noting(func() error { return l.Interface.Update(ctx, r) })
}

func (l *fencedLock) noting(write func() error) error {
	asked := time.Since(l.fence.start)
	err := write()
	if err == nil {
		l.fence.renewed.Store(int64(asked))
		l.fence.seen.Store(int64(asked))
	}
	return err
}
