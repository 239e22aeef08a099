package plugin

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/internal/kube/report"
)

// toldHandle is as much of a handle as a teller needs.
type toldHandle struct {
	fwk.Handle
	factory  informers.SharedInformerFactory
	recorder events.EventRecorderLogger
}

func (h toldHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h toldHandle) EventRecorder() events.EventRecorderLogger              { return h.recorder }

// TestTeller: the latest word about a pod is written once; nothing is written about
// pods that are bound, also when that was not known at first.
func TestTeller(t *testing.T) {
	named := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x", UID: types.UID("uid-" + name)}}
	}
	client := fake.NewClientset()
	var writes atomic.Int32
	conflict := func(bind bool) clienttesting.ReactionFunc {
		first := true
		return func(a clienttesting.Action) (bool, runtime.Object, error) {
			p := a.(clienttesting.UpdateAction).GetObject().(*v1.Pod)
			if p.Name != fmt.Sprint("late-", bind) || !first {
				return false, nil, nil
			}
			first = false
			if bind {
				bound := named(p.Name)
				bound.Spec.NodeName = "n"
				if err := client.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, bound, "x"); err != nil {
					t.Error(err)
				}
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, p.Name, errors.New("edited"))
		}
	}
	client.PrependReactor("update", "pods", conflict(false))
	client.PrependReactor("update", "pods", conflict(true))
	client.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes.Add(1)
		return false, nil, nil
	})
	var pods []*v1.Pod
	for _, name := range []string{"waits", "bound", "other", "late-false", "late-true"} {
		p := named(name)
		if name == "bound" {
			p.Spec.NodeName = "n"
		}
		pods = append(pods, p)
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Pods().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	recorder := events.NewFakeRecorder(10)
	teller := newTeller(always{}, toldHandle{factory: factory, recorder: recorder}, client, &recorders{any: recorder})
	for _, text := range []string{"first", "second"} {
		for _, p := range pods {
			reason := v1.PodReasonUnschedulable
			if p.Name == "other" {
				reason = "WaitingForQuota"
			}
			teller.tell([]report.Notice{{Pod: p, Reason: reason, Text: text, Event: p.Name != "late-false"}})
		}
	}
	go teller.run(t.Context())
	says := func(name string) string {
		p, err := client.CoreV1().Pods("x").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(p.Status.Conditions) == 0 {
			return ""
		}
		return p.Status.Conditions[0].Reason + ": " + p.Status.Conditions[0].Message
	}
	for deadline := time.Now().Add(time.Minute); writes.Load() < 5 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // no sixth
	for name, want := range map[string]string{
		"waits": "Unschedulable: second", "bound": "", "other": "WaitingForQuota: second", "late-false": "Unschedulable: second", "late-true": "",
	} {
		if got := says(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if n := writes.Load(); n != 5 { // two of them refused
		t.Errorf("%d writes", n)
	}
	var events []string
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	if slices.Sort(events); !slices.Equal(events, []string{"Normal WaitingForQuota second", "Warning FailedScheduling second"}) {
		t.Errorf("events %q", events)
	}
}

// TestConditionsYield: conditions stand back for bindings, a little, and do not queue
// behind events.
func TestConditionsYield(t *testing.T) {
	y := newYielding()
	y.turn <- struct{}{} // an event has its turn, and does not end
	y.bindingStarts()
	start := time.Now()
	if err := (conditions{y}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < conditionPatience {
		t.Errorf("stood back for %s", d)
	}
	y.bindingEnds()
	if err := (conditions{y}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// always is an API server whose absence is of no interest.
type always struct{}

func (always) Reachable()   {}
func (always) Unreachable() {}
