package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// setup runs a Cluster over a fake API server.
type setup struct {
	*Cluster
	t        *testing.T
	client   *fake.Clientset
	gpuNodes *cachetesting.FakeControllerSource
	// topologies are NodeResourceTopologies.
	topologies *cachetesting.FakeControllerSource
	mu         sync.Mutex
	reports    []string
	woken      int
}

func newSetup(t *testing.T, source cache.ListerWatcher) *setup {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &setup{t: t, client: fake.NewClientset(), gpuNodes: cachetesting.NewFakeControllerSource(), topologies: cachetesting.NewFakeControllerSource()}
	if source == nil {
		source = s.gpuNodes
	}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	c, err := New(ctx, factory, Sources{GPUNodes: source, NodeTopologies: s.topologies}, func(o *v1.ObjectReference, reason, message string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = append(s.reports, fmt.Sprintf("%s %s: %s: %s", o.Kind, o.Name, reason, message))
	}, func(c *Cluster, id model.NodeID) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.woken += len(c.Waiting(id))
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Cluster = c
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown(); s.gpuNodes.Shutdown(); s.topologies.Shutdown() })
	return s
}

func testNode(name string, gpus int64) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110"),
	}}}
}

func testPod(name string, gpus int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}},
	}
}

func (s *setup) addNode(n *v1.Node) {
	if _, err := s.client.CoreV1().Nodes().Create(context.Background(), n, metav1.CreateOptions{}); err != nil {
		s.t.Error(err)
	}
}

func (s *setup) addPod(p *v1.Pod) {
	if _, err := s.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		s.t.Error(err)
	}
}

func (s *setup) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (s *setup) room(r *model.Request) int {
	found := s.Search(r, score.DefaultWeights(), 0, 1000)
	return len(found)
}

func request(t *testing.T, p *v1.Pod) *model.Request {
	t.Helper()
	r, err := dialect.Request(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBindingRace: many goroutines reserve, bind, fail and finish while nodes come
// and go. Nothing is promised twice, and in the end the ledger equals the API.
func TestBindingRace(t *testing.T) {
	s := newSetup(t, nil)
	const nodes, workers, rounds = 8, 6, 40
	for i := range nodes {
		s.addNode(testNode(fmt.Sprintf("n%d", i), 8))
	}
	if !s.WaitForSync(context.Background()) {
		t.Fatal("no sync")
	}
	s.eventually("nodes known", func() bool { return s.room(request(t, testPod("x", 8))) == nodes })
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range rounds {
				p := testPod(fmt.Sprintf("p%d-%d", w, i), int64(1+random.IntN(3)))
				s.addPod(p)
				r := request(t, p)
				found := s.Search(r, score.DefaultWeights(), 0, 1)
				if len(found) == 0 {
					continue
				}
				given, refusal := s.Reserve(p, r, found[0])
				if refusal != nil {
					continue // somebody was faster
				}
				if random.IntN(4) == 0 {
					s.Unreserve(p)
					continue
				}
				text, err := record.Encode(dialect.Record(r, given.Node, given.Grant))
				if err != nil {
					t.Error(err)
				}
				p.Spec.NodeName, p.Annotations = string(found[0]), map[string]string{names.AnnotationDevices: text}
				if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				if random.IntN(3) > 0 {
					if err := s.client.CoreV1().Pods("default").Delete(context.Background(), p.Name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			s.SyncNode("n0")
			s.SyncPod(testPod("p0-0", 1))
			_, _ = s.Check()
		}
	})
	wg.Wait()
	var err error
	s.eventually("the ledger equals the API", func() bool { _, err = s.Check(); return err == nil })
	held := map[string]string{}
	pods, _ := s.client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	for _, p := range pods.Items {
		if p.Spec.NodeName == "" {
			continue
		}
		rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range rec.Containers[0].Devices {
			key := fmt.Sprint(rec.Node, d.Index)
			if other := held[key]; other != "" {
				t.Errorf("device %s was given to %s and %s", key, other, p.Name)
			}
			held[key] = p.Name
		}
	}
}

// TestUpdatesOfAnAssumedPod: news about a pod that is being bound do not take its
// promise away; its deletion does.
func TestUpdatesOfAnAssumedPod(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 1))
	p := testPod("p", 1)
	s.addPod(p)
	s.WaitForSync(context.Background())
	r := request(t, p)
	s.eventually("node known", func() bool { return s.room(r) == 1 })
	s.eventually("pod known", func() bool { _, err := s.pods.Pods("default").Get("p"); return err == nil })
	if _, refusal := s.Reserve(p, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.SyncPod(p)
	if s.room(r) != 0 {
		t.Error("the promise was lost")
	}
	if err := s.client.CoreV1().Pods("default").Delete(context.Background(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the promise ends with the pod", func() bool { return s.room(r) == 1 })
}

// TestHintBeforeHandler: a queueing hint may see an event before the ledger's own
// handler. Asking for the pod or node brings the ledger up to date.
func TestHintBeforeHandler(t *testing.T) {
	s := newSetup(t, nil)
	p := testPod("gone", 1)
	s.WaitForSync(context.Background())
	s.addNode(testNode("n", 1))
	r := request(t, p)
	s.eventually("node known", func() bool { return s.room(r) == 1 })
	if _, refusal := s.Reserve(p, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.SyncPod(p) // the store does not know it: it is gone
	if s.room(r) != 1 {
		t.Error("a pod that is gone still holds its device")
	}
}

// TestComplaintsAreMadeOnce: a bad record or GPUNode is reported once, again when
// it changes.
func TestComplaintsAreMadeOnce(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 2))
	p := testPod("p", 1)
	p.Spec.NodeName, p.Annotations = "n", map[string]string{names.AnnotationDevices: "{"}
	s.addPod(p)
	s.gpuNodes.Add(&v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 1}, {Index: 1, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}})
	s.WaitForSync(context.Background())
	said := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.reports) }
	s.eventually("two complaints", func() bool { return said() == 2 })
	for range 5 {
		s.SyncNode("n")
		s.SyncPod(p)
	}
	if said() != 2 {
		t.Errorf("got %s", strings.Join(s.reports, "\n"))
	}
}

// TestContestedRecord: a record that names a device somebody older holds is reported
// on its pod, once, whichever of them is seen first.
func TestContestedRecord(t *testing.T) {
	for _, order := range [][]string{{"older", "younger"}, {"younger", "older"}} {
		t.Run(order[0]+" first", func(t *testing.T) {
			s := newSetup(t, nil)
			s.addNode(testNode("n", 4))
			s.WaitForSync(context.Background())
			said := func() string { s.mu.Lock(); defer s.mu.Unlock(); return strings.Join(s.reports, "\n") }
			for _, name := range order {
				p := testPod(name, 1)
				p.Spec.NodeName = "n"
				p.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"n","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":2}]}]}`}
				if name == "older" { // the younger one was created there, and nobody says when
					p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
				}
				s.addPod(p)
				s.eventually("held", func() bool {
					s.Cluster.mu.RLock()
					defer s.Cluster.mu.RUnlock()
					_, m := s.ledger.Held(model.HolderID(p.UID))
					return m != 0
				})
			}
			s.eventually("reported", func() bool { return said() != "" })
			for range 3 {
				s.SyncNode("n")
				s.SyncPod(testPod("older", 1))
				s.SyncPod(testPod("younger", 1))
			}
			if got, want := said(), "Pod younger: ContestedRecord: tangram.dev/devices: device 2 is held by pods that were bound earlier and leave no room; this pod is counted with unknown devices"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if err := s.client.CoreV1().Pods("default").Delete(context.Background(), "younger", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			s.eventually("forgotten with its pod", func() bool {
				s.Cluster.mu.RLock()
				defer s.Cluster.mu.RUnlock()
				return len(s.contested) == 0
			})
		})
	}
}

// TestWaiting: a pod waits until something lets it fit; what changes nothing wakes
// nobody, and who is placed or gone waits no more.
func TestWaiting(t *testing.T) {
	s := newSetup(t, nil)
	p := testPod("p", 2)
	s.addPod(p)
	s.WaitForSync(context.Background())
	r := request(t, p)
	s.eventually("pod known", func() bool { _, err := s.pods.Pods("default").Get("p"); return err == nil })
	if s.Wait(p, r) {
		t.Fatal("there is no node to fit")
	}
	s.addNode(testNode("n", 2))
	s.eventually("the pod is found to fit", func() bool { w := s.Waiting("n"); return len(w) == 1 && w[0].Name == "p" })
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, Vendor: "nvidia", Model: "T4", MemoryMiB: 1}, {Index: 1, Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}}
	woken := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.woken }
	s.gpuNodes.Add(gn)
	s.eventually("the GPUNode wakes the pod", func() bool { return woken() == 1 })
	for i := range 20 { // telemetry
		gn = gn.DeepCopy()
		busy := int32(i)
		gn.Status.Devices = []v1alpha1.DeviceStatus{{Index: 0, Health: v1alpha1.Healthy, UtilizationPercent: &busy}}
		s.gpuNodes.Modify(gn)
	}
	gn = gn.DeepCopy()
	gn.Status.Devices[0].Health = v1alpha1.Failed
	s.gpuNodes.Modify(gn)
	s.eventually("the failed device counts", func() bool { return !s.Wait(p, r) })
	if woken() != 1 {
		t.Errorf("woken %d times by what changes nothing", woken())
	}
	gn = gn.DeepCopy()
	gn.Status.Devices[0].Health = v1alpha1.Healthy
	s.gpuNodes.Modify(gn)
	s.eventually("recovery wakes the pod", func() bool { return woken() == 2 })
	if _, refusal := s.Reserve(p, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.Unreserve(p)
	if w := s.Waiting("n"); len(w) != 0 {
		t.Errorf("who was placed waits no more: %v", w)
	}
	s.Wait(testPod("never-existed", 1), r)
	if w := s.Waiting("n"); len(w) != 0 {
		t.Errorf("who is gone waits no more: %v", w)
	}
}

// TestAnnotationEditOfBoundPod: nonsense edited into a running pod's annotations
// neither loses its record nor counts it twice.
func TestAnnotationEditOfBoundPod(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 4))
	p := testPod("p", 1)
	p.Spec.NodeName = "n"
	p.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"n","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":2}]}]}`}
	s.addPod(p)
	s.WaitForSync(context.Background())
	held := func() (model.NodeID, model.Mask) {
		s.Cluster.mu.RLock()
		defer s.Cluster.mu.RUnlock()
		return s.ledger.Held("uid-p")
	}
	s.eventually("held", func() bool { _, m := held(); return m == 0b100 })
	p = p.DeepCopy()
	p.Annotations[names.AnnotationUseModel] = ""
	if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("seen", func() bool {
		now, _ := s.pods.Pods("default").Get("p")
		_, ok := now.Annotations[names.AnnotationUseModel]
		return ok
	})
	s.SyncPod(p)
	if _, m := held(); m != 0b100 || s.room(request(t, testPod("x", 3))) != 1 {
		t.Errorf("the edit changed what is held: %b, %d nodes have 3 free", m, s.room(request(t, testPod("x", 3))))
	}
}

// TestSameNameNewPod: a pod deleted and created anew under its name is another pod.
func TestSameNameNewPod(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 1))
	old := testPod("p", 1)
	old.UID = "old"
	s.addPod(testPod("p", 1))
	s.WaitForSync(context.Background())
	r := request(t, old)
	s.eventually("node known", func() bool { return s.room(r) == 1 })
	if _, refusal := s.Reserve(old, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.SyncPod(old)
	if s.room(r) != 1 {
		t.Error("the old pod is gone, whatever its name is used for")
	}
}

// absent is an API server that does not serve GPUNodes until told to.
type absent struct {
	*cachetesting.FakeControllerSource
	mu     sync.Mutex
	serves bool
}

func (a *absent) List(o metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.serves {
		return nil, apierrors.NewNotFound(v1alpha1.GPUNodes.GroupResource(), "")
	}
	return a.FakeControllerSource.List(o)
}

func (a *absent) Watch(o metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.serves {
		return nil, apierrors.NewNotFound(v1alpha1.GPUNodes.GroupResource(), "")
	}
	return a.FakeControllerSource.Watch(o)
}

// TestStartsWithoutGPUNodes: a cluster without the CRD syncs, and takes GPUNodes
// up when they come.
func TestStartsWithoutGPUNodes(t *testing.T) {
	source := &absent{FakeControllerSource: cachetesting.NewFakeControllerSource()}
	s := newSetup(t, source)
	s.addNode(testNode("n", 1))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if !s.WaitForSync(ctx) {
		t.Fatal("no sync without GPUNodes")
	}
	p := testPod("p", 1)
	r := request(t, p)
	s.eventually("derived from allocatable", func() bool { return s.room(r) == 1 })
	source.Add(&v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}, Status: v1alpha1.GPUNodeStatus{Devices: []v1alpha1.DeviceStatus{{Index: 0, Health: v1alpha1.Failed}}}})
	source.mu.Lock()
	source.serves = true
	source.mu.Unlock()
	s.eventually("the GPUNode's word counts", func() bool { return s.room(r) == 0 })
}
