package plugin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
)

func (b *bench) binder() *bind {
	return &bind{autoscales: &atomic.Bool{}, engine: b.Engine, client: b.client, events: newYielding(), fence: &fence{}, patience: time.Millisecond}
}

// TestBindLooksBeforeGivingUp: an error although the API server did the work is
// not a failure; an error because another scheduler bound the pod is.
func TestBindLooksBeforeGivingUp(t *testing.T) {
	lost := errors.New("connection lost")
	tests := []struct {
		name   string
		bound  func(*v1.Pod, *v1.Binding)
		wantOK bool
	}{
		{"the answer was lost", func(p *v1.Pod, b *v1.Binding) { p.Spec.NodeName, p.Annotations = b.Target.Name, b.Annotations }, true},
		{"nothing was done", func(*v1.Pod, *v1.Binding) {}, false},
		{"bound elsewhere", func(p *v1.Pod, b *v1.Binding) { p.Spec.NodeName = "other" }, false},
		{"bound with other devices", func(p *v1.Pod, b *v1.Binding) { p.Spec.NodeName = b.Target.Name }, false},
		{"another pod of that name", func(p *v1.Pod, b *v1.Binding) {
			p.Spec.NodeName, p.Annotations, p.UID = b.Target.Name, b.Annotations, "new"
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := gpuPod("p", 1)
			b := newBench(t, pod.DeepCopy())
			b.react("create", "binding", func(a clienttesting.Action) (bool, runtime.Object, error) {
				now := pod.DeepCopy()
				tt.bound(now, a.(clienttesting.CreateAction).GetObject().(*v1.Binding))
				if err := b.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), now, "default"); err != nil {
					t.Error(err)
				}
				return true, nil, lost
			})
			cs, _ := b.begin(pod)
			if got := b.binder().Bind(context.Background(), cs, pod, "n"); got.IsSuccess() != tt.wantOK {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestBindAsksUntilAnswered: an API server that does not answer for a while must not
// make a bound pod's devices free.
func TestBindAsksUntilAnswered(t *testing.T) {
	pod := cpuPod("p")
	b := newBench(t, pod.DeepCopy())
	b.react("create", "binding", func(clienttesting.Action) (bool, runtime.Object, error) {
		now := pod.DeepCopy()
		now.Spec.NodeName = "n"
		return true, nil, errors.Join(b.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), now, "default"), errors.New("connection lost"))
	})
	asked := 0
	b.react("get", "", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return asked < 5, nil, errors.New("connection refused")
	})
	if got := b.binder().Bind(context.Background(), framework.NewCycleState(), pod, "n"); !got.IsSuccess() || asked < 5 {
		t.Errorf("got %v after %d questions", got, asked)
	}
}

// TestBindWritesTheRecord: the Binding carries the devices of the release and the queue
// that is charged.
func TestBindWritesTheRecord(t *testing.T) {
	pod := gpuPod("p", 2)
	b := newBench(t, pod.DeepCopy())
	posted := b.bindings()
	cs, c := b.begin(pod)
	if got := b.binder().Bind(context.Background(), cs, pod, "n"); !got.IsSuccess() || posted() != 1 {
		t.Fatalf("got %v, %d posted", got, posted())
	}
	now, err := b.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || now.Spec.NodeName != "n" || now.Annotations[names.AnnotationDevices] == "" || now.Annotations[names.AnnotationCharged] != c.Queue || c.Queue == "" {
		t.Errorf("got %+v, %v, charged %q", now, err, c.Queue)
	}
	eventually(t, "the ledger equals the records", 10*time.Second, func() bool { n, err := b.Checker().All(); return n == 1 && err == nil })
}

// TestBindUnconfirmed: no Binding is posted for devices that the ledger does not give
// the pod any more (hole H14): its release was taken back, or another pod was bound to
// them.
func TestBindUnconfirmed(t *testing.T) {
	for name, lose := range map[string]func(b *bench, pod *v1.Pod, c *cycle){
		"taken back": func(b *bench, pod *v1.Pod, c *cycle) { c.Refused(nil) },
		"released again": func(b *bench, pod *v1.Pod, c *cycle) {
			c.Refused(nil)
			b.Step()
			if !b.Released(pod) {
				t.Error("not released again")
			}
		},
		"another pod is bound there": func(b *bench, _ *v1.Pod, _ *cycle) {
			other := gpuPod("other", 8)
			other.Spec.NodeName = "n"
			if err := b.client.Tracker().Add(other); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the other holds the devices", 10*time.Second, func() bool { n, err := b.Checker().All(); return n == 1 && err == nil })
		},
		"the pod is gone": func(b *bench, pod *v1.Pod, _ *cycle) {
			if err := b.client.CoreV1().Pods("default").Delete(context.Background(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is gone", 10*time.Second, func() bool { return b.Gone(pod) })
			eventually(t, "its release is gone", 10*time.Second, func() bool { b.Sync(); return !b.Released(pod) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("p", 8)
			b := newBench(t, pod.DeepCopy())
			posted := b.bindings()
			cs, c := b.begin(pod)
			lose(b, pod, c)
			if got := b.binder().Bind(context.Background(), cs, pod, "n"); got.Code() != fwk.Unschedulable || posted() != 0 {
				t.Errorf("got %v, %d Bindings posted", got, posted())
			}
		})
	}
}

// TestReserveTakesThePlan: Reserve gives a pod its planned devices, members of gangs as
// well, and none to a pod without a release.
func TestReserveTakesThePlan(t *testing.T) {
	a, m := gpuPod("a", 4), gpuPod("b", 4)
	for _, p := range []*v1.Pod{a, m} {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = "g", "2"
	}
	b := newBench(t, a.DeepCopy(), m.DeepCopy())
	r, g := &reserve{handle: handle{client: b.client}}, &gang{handle: handle{client: b.client}, permit: permitFor}
	for i, p := range []*v1.Pod{a, m} {
		cs, c := b.begin(p)
		if got := r.Reserve(t.Context(), cs, p, "n"); !got.IsSuccess() {
			t.Fatalf("%s: got %v", p.Name, got)
		}
		if _, ok := c.Confirm(); !ok {
			t.Fatalf("%s: not confirmed", p.Name)
		}
		got, _ := g.Permit(t.Context(), cs, p, "n")
		if want := []fwk.Code{fwk.Wait, fwk.Success}[i]; got.Code() != want {
			t.Errorf("%s: Permit says %v", p.Name, got)
		}
	}
	cs := framework.NewCycleState()
	cs.Write(cycleKey, &cycle{})
	if got := r.Reserve(t.Context(), cs, a, "n"); got.Code() != fwk.Unschedulable {
		t.Errorf("without a release: %v", got)
	}
	if got := r.Reserve(t.Context(), framework.NewCycleState(), cpuPod("cpu"), "n"); !got.IsSuccess() {
		t.Errorf("a pod that the engine does not place: %v", got)
	}
}

// TestUnreachable: which errors are about the API server: then no further pod is tried
// for a while (hole H19).
func TestUnreachable(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for want, errs := range map[bool][]error{
		true: {errors.New("connection refused"), context.DeadlineExceeded, apierrors.NewServiceUnavailable("x"), apierrors.NewTooManyRequests("x", 1),
			apierrors.NewInternalError(errors.New("x")), apierrors.NewTimeoutError("x", 1), apierrors.NewServerTimeout(pods, "create", 1)},
		false: {apierrors.NewConflict(pods, "p", errors.New("x")), apierrors.NewNotFound(pods, "p"), apierrors.NewForbidden(pods, "p", errors.New("x"))},
	} {
		for _, err := range errs {
			if got := unreachable(err); got != want {
				t.Errorf("%v: unreachable %v", err, got)
			}
		}
	}
}

// TestBindSuspends: a Binding that finds the API server unreachable suspends starts, and
// one that succeeds lets them go on.
func TestBindSuspends(t *testing.T) {
	first, second := gpuPod("first", 4), gpuPod("second", 4)
	b := newBench(t, first.DeepCopy())
	down := true
	b.bindings()
	b.react("create", "binding", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, apierrors.NewServiceUnavailable("etcd is gone")
	})
	cs, c := b.begin(first)
	c.Reserved()
	if got := b.binder().Bind(t.Context(), cs, first, "n"); got.IsSuccess() {
		t.Fatal("bound without an API server")
	}
	if err := b.client.Tracker().Add(second.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second is seen", 10*time.Second, func() bool { return !b.Gone(second) })
	if b.Step(); b.Released(second) {
		t.Error("started although nothing can be written")
	}
	down = false
	if got := b.binder().Bind(t.Context(), cs, first, "n"); !got.IsSuccess() {
		t.Fatal(got)
	}
	eventually(t, "starts go on", 10*time.Second, func() bool { b.Step(); return b.Released(second) })
}
