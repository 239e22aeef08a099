package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// profileOf is as much of a framework as the failure handler needs.
type profileOf struct {
	framework.Framework
	name    string
	factory informers.SharedInformerFactory
}

func (p profileOf) ProfileName() string                                    { return p.name }
func (p profileOf) SharedInformerFactory() informers.SharedInformerFactory { return p.factory }

func queued(t *testing.T, pod *v1.Pod) *framework.QueuedPodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info}
}

// failing is a scheduler whose failures are handled, with kube-scheduler's own queue.
// It returns who was told the usual way.
func (b *bench) failing(q *waitingRoom) (*scheduler.Scheduler, map[string]bool) {
	told := map[string]bool{}
	sched := &scheduler.Scheduler{SchedulingQueue: q, FailureHandler: func(_ context.Context, _ framework.Framework, info *framework.QueuedPodInfo, _ *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		told[info.Pod.Name] = true
	}}
	s := NewShared(watch.Sources{})
	s.engine, s.handle = b.Engine, handle{client: b.client}
	s.profile(names.SchedulerName).filters = true
	s.HandleFailures(sched)
	return sched, told
}

// popped releases a pod and takes it out of the queue, as a scheduling cycle does.
func (b *bench) popped(q *waitingRoom, pod *v1.Pod) *framework.QueuedPodInfo {
	b.t.Helper()
	b.Step()
	q.Add(b.t.Context(), pod)
	info, err := q.Pop(klog.FromContext(b.t.Context()))
	if err != nil || info.Pod.Name != pod.Name {
		b.t.Fatalf("popped %v, %v", info, err)
	}
	return info
}

// TestHandleFailures: a pod of the engine whose cycle failed is put back without a word,
// whatever failed: the engine says why it waits. All other pods are told as ever.
func TestHandleFailures(t *testing.T) {
	for name, status := range map[string]*fwk.Status{
		"its place was taken back": fwk.NewStatus(fwk.Unschedulable, takenBack).WithPlugin(names.PluginGang),
		"the filter said no":       fwk.AsStatus(&framework.FitError{Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}),
		"a Binding failed":         fwk.AsStatus(errors.New("conflict")).WithPlugin(names.PluginBind),
	} {
		t.Run(name, func(t *testing.T) {
			managed, plain, foreign := gpuPod("p", 1), cpuPod("cpu"), gpuPod("foreign", 1)
			foreign.Spec.SchedulerName = "default-scheduler"
			b := newBench(t, managed.DeepCopy(), plain.DeepCopy(), foreign.DeepCopy())
			q := b.newQueue(t.Context())
			sched, told := b.failing(q)
			info := b.popped(q, managed)
			c, _ := b.Begin(managed)
			c.Refused(nil)
			fail := func(profile string, info *framework.QueuedPodInfo) {
				sched.FailureHandler(t.Context(), profileOf{name: profile, factory: b.factory}, info, status, nil, time.Now())
			}
			fail(names.SchedulerName, info)
			fail(names.SchedulerName, queued(t, plain))
			fail("default-scheduler", queued(t, foreign))
			if told["p"] || !told["cpu"] || !told["foreign"] {
				t.Errorf("told %v", told)
			}
			if _, back := q.GetPod("p", "default"); !back || len(q.PodsInActiveQ()) > 0 || len(q.InFlightPods()) > 0 {
				t.Errorf("in the queue %v, %d active, %d in flight", back, len(q.PodsInActiveQ()), len(q.InFlightPods()))
			}
		})
	}
}

// TestPutBackReleased: a pod that is released while its cycle ends is put back into the
// active queue: its activation came while it was in no part of the queue.
func TestPutBackReleased(t *testing.T) {
	pod, gone := gpuPod("p", 1), gpuPod("gone", 1)
	b := newBench(t, pod.DeepCopy())
	q := b.newQueue(t.Context())
	sched, _ := b.failing(q)
	info := b.popped(q, pod)
	c, _ := b.Begin(pod)
	c.Refused(nil)
	if b.Step(); !b.Released(pod) {
		t.Fatal("not released again")
	}
	status := fwk.NewStatus(fwk.Unschedulable, takenBack)
	profile := profileOf{name: names.SchedulerName, factory: b.factory}
	sched.FailureHandler(t.Context(), profile, info, status, nil, time.Now())
	if active := q.PodsInActiveQ(); len(active) != 1 {
		t.Errorf("%d in the active queue", len(active))
	}
	// One that is gone is not put back.
	sched.FailureHandler(t.Context(), profile, queued(t, gone), status, nil, time.Now())
	if _, back := q.GetPod("gone", "default"); back {
		t.Error("a pod that is gone is back in the queue")
	}
}

// TestNothingToClear: a pod that fails without a nomination does not get an empty one;
// a nomination it has is cleared.
func TestNothingToClear(t *testing.T) {
	var got *fwk.NominatingInfo
	sched := &scheduler.Scheduler{FailureHandler: func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, _ *fwk.Status, n *fwk.NominatingInfo, _ time.Time) {
		got = n
	}}
	NewShared(watch.Sources{}).HandleFailures(sched)
	for nominated, cleared := range map[string]bool{"": false, "n": true} {
		info := queued(t, &v1.Pod{Status: v1.PodStatus{NominatedNodeName: nominated}})
		sched.FailureHandler(context.Background(), profileOf{name: "other"}, info, fwk.NewStatus(fwk.Unschedulable, "full"),
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}, time.Now())
		if (got != nil) != cleared {
			t.Errorf("nominated to %q: got %+v", nominated, got)
		}
	}
}
