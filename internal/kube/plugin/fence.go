package plugin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tangram-dev/tangram/internal/kube/binding"
)

// fence keeps a process from writing that may not lead any more. A process that was
// stopped and resumed does not know how long it slept: its leader election notices only
// when the next renewal fails, and meanwhile another replica leads. So nothing is written
// but within the renew deadline of the last renewal that succeeded, counted from when that
// was asked for, by the monotonic clock and by the wall clock: the first stands still while a
// machine sleeps, the second may be set back.
//
// The check is made where a decision is carried out, and again by the client that writes,
// when the request goes out (binding.NewFencedClient). What slips through is found by the
// leader as a contested record, and healed.
type fence struct {
	// renewed is when the lease was last renewed; nil: no leader election, no fence.
	renewed  *atomic.Pointer[instant]
	clock    func() instant
	deadline time.Duration
	// seen is when any renewal was last seen, by the monotonic clock; it counts for lease.
	seen    atomic.Int64
	renewal atomic.Int64 // the renewal itself, by the lease's own clock
	lease   time.Duration
}

// instant is a moment by both clocks, as times since two different starts.
type instant struct{ monotonic, wall time.Duration }

// since is how long ago a moment was, by the clock that says longer.
func (i instant) since(then instant) time.Duration {
	return max(i.monotonic-then.monotonic, i.wall-then.wall)
}

// watch makes the fence follow a leader election; nil: there is none.
func (f *fence) watch(le *leaderelection.LeaderElectionConfig) {
	if le == nil {
		return
	}
	start := time.Now()
	f.clock = func() instant {
		now := time.Now()
		return instant{monotonic: now.Sub(start), wall: time.Duration(now.UnixNano())}
	}
	f.renewed, f.deadline, f.lease = &atomic.Pointer[instant]{}, le.RenewDeadline, le.LeaseDuration
	f.seen.Store(int64(-le.LeaseDuration)) // none was seen yet; nor does it lead yet
	le.Lock = &fencedLock{le.Lock, f}
}

// check says why nothing may be written now.
func (f *fence) check() error {
	if f == nil || f.renewed == nil {
		return nil
	}
	renewed := f.renewed.Load()
	if renewed == nil {
		return fmt.Errorf("%w: this replica does not lead", binding.ErrFenced)
	}
	if age := f.clock().since(*renewed); age > f.deadline {
		return fmt.Errorf("%w: the leader's lease was last renewed %s ago, and another replica may lead", binding.ErrFenced, age.Round(time.Millisecond))
	}
	return nil
}

// fresh says whether some replica holds a lease that is not over, as far as this process
// can see.
func (f *fence) fresh() bool {
	if f == nil || f.renewed == nil {
		return true
	}
	return f.clock().monotonic-time.Duration(f.seen.Load()) < f.lease
}

// observe takes note of the lease as another replica left it. Clocks differ, so what
// counts is when it was seen to change.
func (f *fence) observe(r *resourcelock.LeaderElectionRecord) {
	if at := r.RenewTime.UnixNano(); r.HolderIdentity != "" && f.renewal.Swap(at) != at {
		f.seen.Store(int64(f.clock().monotonic))
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
	asked := l.fence.clock()
	err := write()
	if err == nil {
		l.fence.renewed.Store(&asked)
		l.fence.seen.Store(int64(asked.monotonic))
	}
	return err
}
