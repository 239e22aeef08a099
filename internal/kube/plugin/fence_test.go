package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// lease is a lock whose writes succeed or not.
type lease struct {
	resourcelock.Interface
	err error
	// during happens while a renewal is under way; nil: nothing.
	during func()
}

func (l *lease) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func (l *lease) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	if l.during != nil {
		l.during()
	}
	return l.err
}

// renewDeadline is longer than a busy machine stops a test: only pass lets it go by.
const renewDeadline = 10 * time.Minute

// fenced is a fence that follows a lease, and the lock that leader election uses.
func fenced() (*fence, *lease, resourcelock.Interface) {
	l := &lease{}
	le := &leaderelection.LeaderElectionConfig{Lock: l, RenewDeadline: renewDeadline}
	f := &fence{}
	f.watch(le)
	return f, l, le.Lock
}

// ago makes so much time pass, by both clocks: a process that was stopped does not notice.
func (f *fence) ago(d time.Duration) { f.pass(d, d) }

// pass makes time pass, by each clock.
func (f *fence) pass(monotonic, wall time.Duration) {
	clock := f.clock
	f.clock = func() instant {
		now := clock()
		return instant{now.monotonic + monotonic, now.wall + wall}
	}
}

// TestFence: nothing is written before the lease is acquired, and not when it was last
// renewed longer ago than the renew deadline; a renewal lets writes go on.
func TestFence(t *testing.T) {
	f, l, lock := fenced()
	may := func(when string, want bool) {
		t.Helper()
		if err := f.check(); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	may("before it leads", false)
	l.err = errors.New("held by another")
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
		t.Fatal("the lock's error is lost")
	}
	may("when the lease was not acquired", false)
	l.err = nil
	renew := func() {
		t.Helper()
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	may("when it leads", true)
	f.ago(renewDeadline / 2)
	may("within the deadline", true)
	f.ago(renewDeadline)
	may("after it was stopped for longer", false)
	renew()
	f.pass(0, 2*renewDeadline)
	may("after the machine slept", false)
	renew()
	f.pass(2*renewDeadline, -time.Hour)
	may("after it was stopped and the clock was set back", false)
	renew()
	f.pass(0, -time.Hour)
	may("after the clock was set back", true)
	f.ago(2 * renewDeadline)
	l.err = errors.New("connection refused")
	_ = lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})
	may("when a renewal failed", false)
	l.err = nil
	renew()
	may("after a renewal", true)
	// A renewal counts from when it was asked for: its answer may come late.
	f.ago(2 * renewDeadline)
	l.during = func() { f.ago(2 * renewDeadline) }
	renew()
	may("after a renewal whose answer came late", false)
}

// TestFenceOff: without leader election everything may be written.
func TestFenceOff(t *testing.T) {
	var none *fence
	off := &fence{}
	off.watch(nil)
	for name, f := range map[string]*fence{"no fence": none, "no election": off, "not set up": {}} {
		if err := f.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFenceStopsBindings: a leader whose lease is old posts no Binding, evicts and
// deletes nothing; a renewal lets it go on (hole H14).
func TestFenceStopsBindings(t *testing.T) {
	pod, other, plain := gpuPod("p", 8), gpuPod("other", 1), cpuPod("cpu")
	other.Spec.NodeName = "n"
	b := newBench(t, pod.DeepCopy(), plain.DeepCopy())
	posted := b.bindings()
	f, _, lock := fenced()
	binder := b.binder()
	binder.fence = f
	renew := func() {
		t.Helper()
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	cs, _ := b.begin(pod)
	f.ago(2 * renewDeadline) // SIGSTOP
	if got := binder.Bind(t.Context(), cs, pod, "n"); got.IsSuccess() || posted() != 0 {
		t.Errorf("got %v, %d posted", got, posted())
	}
	if got := binder.Bind(t.Context(), framework.NewCycleState(), plain, "n"); got.IsSuccess() || posted() != 0 {
		t.Errorf("a pod without GPUs: got %v, %d posted", got, posted())
	}
	if err := b.client.Tracker().Add(other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	l := &loop{engine: b.Engine, handle: handle{client: b.client}, client: b.client, fence: f}
	victim := kubeengine.Victim{Pod: other, Why: "test"}
	if l.evict(t.Context(), victim) || l.delete(t.Context(), victim) {
		t.Error("a pod was told to go")
	}
	if _, err := b.client.CoreV1().Pods("default").Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	renew()
	if got := binder.Bind(t.Context(), framework.NewCycleState(), plain, "n"); !got.IsSuccess() || posted() != 1 {
		t.Errorf("after a renewal: got %v, %d posted", got, posted())
	}
}
