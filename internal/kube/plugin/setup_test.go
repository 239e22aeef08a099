package plugin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tangram-dev/tangram/api/names"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// bench is an engine over a fake API server, with one node of eight GPUs. The test plays
// kube-scheduler.
type bench struct {
	*kubeengine.Engine
	*kubeengine.Gate
	t       *testing.T
	client  *fake.Clientset
	factory informers.SharedInformerFactory

	mu        sync.Mutex
	reactions []reaction
}

// reaction answers what is asked of the API server about pods.
type reaction struct {
	verb, subresource string
	answer            clienttesting.ReactionFunc
}

// react adds a reaction that is asked before all others. The fake API server's own way
// to do that may not be used while informers run.
func (b *bench) react(verb, subresource string, answer clienttesting.ReactionFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reactions = append([]reaction{{verb, subresource, answer}}, b.reactions...)
}

func (b *bench) answer(a clienttesting.Action) (bool, runtime.Object, error) {
	b.mu.Lock()
	reactions := b.reactions
	b.mu.Unlock()
	for _, r := range reactions {
		if r.verb == a.GetVerb() && r.subresource == a.GetSubresource() {
			if handled, object, err := r.answer(a); handled {
				return true, object, err
			}
		}
	}
	return false, nil, nil
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		names.ResourceNVIDIA: *resource.NewQuantity(8, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110"),
	}}}
	b := &bench{t: t, client: fake.NewClientset(append(objects, node)...)}
	b.client.PrependReactor("*", "pods", b.answer)
	b.factory = informers.NewSharedInformerFactory(b.client, 0)
	gpuNodes := cachetesting.NewFakeControllerSource()
	t.Cleanup(gpuNodes.Shutdown)
	var err error
	if b.Engine, err = kubeengine.New(kubeengine.Config{Factory: b.factory, Sources: watch.Sources{GPUNodes: gpuNodes}, Observer: observe.New(), Reporter: func(report.Complaint) {}}); err != nil {
		t.Fatal(err)
	}
	b.Gate = b.Engine.Gate()
	b.Own(names.SchedulerName, workload.Profile{})
	b.Run(t.Context())
	b.factory.Start(t.Context().Done())
	if !b.WaitForSync(t.Context()) {
		t.Fatal("not in sync")
	}
	return b
}

// gpuPod is a pod of this scheduler.
func gpuPod(name string, gpus int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}},
	}
}

// cpuPod is a pod that the engine does not place.
func cpuPod(name string) *v1.Pod {
	p := gpuPod(name, 0)
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	return p
}

// begin lets a pod be released and begins its cycle.
func (b *bench) begin(pod *v1.Pod) (fwk.CycleState, *cycle) {
	b.t.Helper()
	b.Step()
	c, ok := b.Begin(pod)
	if !ok {
		b.t.Fatalf("%s is not released", pod.Name)
	}
	cs := framework.NewCycleState()
	mine := &cycle{Cycle: c}
	cs.Write(cycleKey, mine)
	return cs, mine
}

// eventually waits for what comes through goroutines.
func eventually(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	within *= 6 // the machine may run other tests, and the race detector
	for deadline := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// handle is as much of a framework handle as a binding and the loop need.
type handle struct {
	fwk.Handle
	client   *fake.Clientset
	recorder events.EventRecorderLogger
}

func (h handle) ClientSet() kubernetes.Interface           { return h.client }
func (h handle) EventRecorder() events.EventRecorderLogger { return h.recorder }
func (h handle) GetWaitingPod(types.UID) fwk.WaitingPod    { return nil }

// newQueue is kube-scheduler's own queue with GPUQueue in it, as a profile has it, and the
// waiting room before it.
func (b *bench) newQueue(ctx context.Context) *waitingRoom {
	metrics.Register() // the queue counts from the start
	q := &queue{gate: b.Gate}
	hints := internalqueue.QueueingHintMap{}
	registered, _ := q.EventsToRegister(ctx) // knows no error
	for _, e := range registered {
		hints[e.Event] = append(hints[e.Event], &internalqueue.QueueingHintFunction{PluginName: names.PluginQueue, QueueingHintFn: e.QueueingHintFn})
	}
	out := internalqueue.NewTestQueue(ctx, q.Less,
		internalqueue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{names.SchedulerName: {names.PluginQueue: q}}),
		internalqueue.WithQueueingHintMapPerProfile(internalqueue.QueueingHintMapPerProfile{names.SchedulerName: hints}),
		internalqueue.WithPodInitialBackoffDuration(time.Millisecond), internalqueue.WithPodMaxBackoffDuration(time.Millisecond))
	b.t.Cleanup(out.Close)
	return newWaitingRoom(out, b.Waits, b.Gone)
}

// bindings makes a fake API server carry Bindings out, and counts them.
func (b *bench) bindings() func() int {
	var mu sync.Mutex
	n := 0
	b.react("create", "binding", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		binding := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		object, err := b.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), binding.Namespace, binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := object.(*v1.Pod).DeepCopy()
		if pod.Spec.NodeName != "" {
			return true, nil, fmt.Errorf("%s is bound", pod.Name)
		}
		pod.Spec.NodeName = binding.Target.Name
		pod.Annotations = binding.Annotations
		return true, binding, b.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
	})
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}
