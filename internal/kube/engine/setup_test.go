package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// setup is an engine whose informers the test plays: it writes their stores and calls
// the feed's handlers, so that nothing has to be waited for but the sources of optional
// objects. The test plays kube-scheduler, too, and moves the clock.
type setup struct {
	*Engine
	*answer.Answers
	t        *testing.T
	now      time.Time
	factory  informers.SharedInformerFactory
	podStore cache.Store
	nodes    cache.Store
	spaces   cache.Store
	budgets  cache.Store
	gpuNodes *cachetesting.FakeControllerSource
	// topologies are NodeResourceTopologies, groups the objects that describe gangs and
	// queues.
	topologies *cachetesting.FakeControllerSource
	groups     map[schema.GroupVersionResource]*cachetesting.FakeControllerSource
	seen       []model.HolderID
	// dynamic: ResourceClaims are followed.
	dynamic bool

	mu      sync.Mutex
	reports []string
}

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newSetup has nodes of eight GPUs each, n0, n1 and so on, and the kinds of objects that
// are given.
func newSetup(t *testing.T, nodes int, kinds ...schema.GroupVersionResource) *setup {
	t.Helper()
	return makeSetup(t, nodes, false, kinds...)
}

func makeSetup(t *testing.T, nodes int, dynamic bool, kinds ...schema.GroupVersionResource) *setup {
	t.Helper()
	s := &setup{t: t, now: start, dynamic: dynamic, gpuNodes: cachetesting.NewFakeControllerSource(), topologies: cachetesting.NewFakeControllerSource(),
		groups: map[schema.GroupVersionResource]*cachetesting.FakeControllerSource{}}
	from := watch.Sources{GPUNodes: s.gpuNodes, NodeTopologies: s.topologies, Groups: map[schema.GroupVersionResource]cache.ListerWatcher{}}
	for _, kind := range kinds {
		s.groups[kind] = cachetesting.NewFakeControllerSource()
		from.Groups[kind] = s.groups[kind]
	}
	s.wire(from)
	s.Own(names.SchedulerName, workload.Profile{})
	for i := range nodes {
		s.addNode(testNode(fmt.Sprintf("n%d", i), 8))
	}
	s.eventually("sources are listed", func() bool {
		if !s.inventory.Synced() {
			return false
		}
		for _, w := range s.objects {
			if !w.Listed() {
				return false
			}
		}
		return true
	})
	s.Sync()
	return s
}

// wire makes the engine.
func (s *setup) wire(from watch.Sources) {
	s.t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	s.factory = factory
	s.podStore = factory.Core().V1().Pods().Informer().GetStore()
	s.nodes = factory.Core().V1().Nodes().Informer().GetStore()
	s.spaces = factory.Core().V1().Namespaces().Informer().GetStore()
	s.budgets = factory.Policy().V1().PodDisruptionBudgets().Informer().GetStore()
	c := Config{Factory: factory, Sources: from, Claims: s.dynamic, Clock: func() time.Time { return s.now }, Observer: observe.New(), Logger: klog.FromContext(s.t.Context())}
	c.Reporter = func(c report.Complaint) {
		// Reports lead to kube-scheduler, which asks the engine under its own locks.
		if s.Engine.mu.held.TryLock() {
			s.Engine.mu.Unlock()
		} else {
			s.t.Error("reported under the engine's lock")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = append(s.reports, fmt.Sprintf("%s %s: %s: %s", c.About.Kind, c.About.Name, c.Reason, c.Message))
	}
	var err error
	s.Engine, err = New(c)
	must(s.t, err)
	s.Answers = s.Engine.Answers(answer.DefaultAges())
	s.Run(s.t.Context())
	s.t.Cleanup(func() {
		s.gpuNodes.Shutdown()
		s.topologies.Shutdown()
		for _, source := range s.groups {
			source.Shutdown()
		}
	})
}

// cycleOf is the scheduling cycle of a pod that was given a ticket.
func (s *setup) cycleOf(p *v1.Pod, t engine.Ticket) *Cycle {
	h := model.HolderID(p.UID)
	if c, ok := s.gate.releases.get(h); ok && c.Ticket == t {
		now := *c
		now.engine = s.Engine
		return &now
	}
	return &Cycle{engine: s.Engine, Pod: p, Release: Release{Holder: h, Ticket: t, Node: &model.Node{}}}
}

// What a cycle tells, by pod.

func (s *setup) Reserved(p *v1.Pod, t engine.Ticket) (bool, []model.HolderID, bool) {
	return s.cycleOf(p, t).Reserved()
}

func (s *setup) Failed(p *v1.Pod, t engine.Ticket, why string) []model.HolderID {
	return s.cycleOf(p, t).Failed(why)
}

func (s *setup) Refused(p *v1.Pod, t engine.Ticket, v []Verdict) []model.HolderID {
	return s.cycleOf(p, t).Refused(v)
}

func (s *setup) Confirm(p *v1.Pod, t engine.Ticket) bool {
	_, ok := s.cycleOf(p, t).Confirm()
	return ok
}

func (s *setup) Take(p *v1.Pod, t engine.Ticket, node model.NodeID) (Release, *explain.Refusal) {
	c := s.cycleOf(p, t)
	refusal := c.Take(node)
	return c.Release, refusal
}

func (s *setup) RefusedEverywhere(p *v1.Pod, t engine.Ticket, said string, except []model.NodeID) []model.HolderID {
	return s.cycleOf(p, t).RefusedEverywhere(said, except)
}

func (s *setup) Fit(r *model.Request, id model.NodeID, t *coreanswer.Trial) *explain.Refusal {
	s.Drain()
	return s.Engine.Fit(r, id, t)
}

func (s *setup) Rate(r *model.Request, w score.Weights, id model.NodeID, without model.HolderID) planner.Rating {
	s.Drain()
	return s.Engine.Rate(r, w, id, without)
}

func (s *setup) setLevels(levels topology.Levels) {
	s.Configure(func(set *Settings) { set.Levels = levels })
}

func (s *setup) Check() (int, error) { return s.Checker().All() }

func (s *setup) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.reports, "\n")
}

// eventually is for what comes through a source's own goroutines.
func (s *setup) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func testNode(name string, gpus int64) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110"),
	}}}
}

// testPod is a pod of another scheduler.
func testPod(name string, gpus int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}},
	}
}

// member is a pod of this scheduler that was created now, in a gang when that is named.
func (s *setup) member(name, gang string, size int, gpus int64) *v1.Pod {
	p := testPod(name, gpus)
	p.Spec.SchedulerName = names.SchedulerName
	p.CreationTimestamp = metav1.NewTime(s.now)
	if gang != "" {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = gang, fmt.Sprint(size)
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// set writes an object to a store as an informer does, and tells its handler.
func set[T metav1.Object](t *testing.T, store cache.Store, h cache.ResourceEventHandler, o T) {
	t.Helper()
	old, there, err := store.Get(o)
	must(t, err)
	must(t, store.Update(o))
	if there {
		h.OnUpdate(old, o)
	} else {
		h.OnAdd(o, false)
	}
}

func (s *setup) addNode(n *v1.Node)       { set(s.t, s.nodes, s.feed.nodeHandler(), n) }
func (s *setup) addSpace(n *v1.Namespace) { set(s.t, s.spaces, s.feed.namespaceHandler(), n) }
func (s *setup) addBudget(b *policyv1.PodDisruptionBudget) {
	set(s.t, s.budgets, s.feed.budgetHandler(), b)
}

func (s *setup) addPod(p *v1.Pod) {
	s.mu.Lock()
	if h := model.HolderID(p.UID); !slices.Contains(s.seen, h) {
		s.seen = append(s.seen, h)
	}
	s.mu.Unlock()
	set(s.t, s.podStore, s.feed.podHandler(), p)
}

// add creates pods.
func (s *setup) add(pods ...*v1.Pod) {
	for _, p := range pods {
		s.addPod(p)
	}
}

// latest is a pod as the store has it.
func (s *setup) latest(name string) *v1.Pod {
	s.t.Helper()
	p, err := s.driver.pods.Pods("default").Get(name)
	must(s.t, err)
	return p
}

// edit changes a pod.
func (s *setup) edit(name string, change func(*v1.Pod)) {
	s.t.Helper()
	p := s.latest(name).DeepCopy()
	change(p)
	s.addPod(p)
}

func (s *setup) deletePod(name string) {
	s.t.Helper()
	p := s.latest(name)
	must(s.t, s.podStore.Delete(p))
	s.feed.podHandler().OnDelete(p)
}

// terminate begins a pod's grace period.
func (s *setup) terminate(name string) {
	s.t.Helper()
	s.edit(name, func(p *v1.Pod) { at := metav1.NewTime(s.now.Add(30 * time.Second)); p.DeletionTimestamp = &at })
}

// look tells the feed of a pod or node once more, though nothing is new.
func (s *setup) look(p *v1.Pod, node string) {
	if p != nil {
		s.Push(PodEvent(p))
	}
	if node != "" {
		s.Push(NodeEvent(node))
	}
	s.Sync()
}

// after lets time pass, then steps.
func (s *setup) after(d time.Duration) Turn {
	s.now = s.now.Add(d)
	return s.Step()
}

// room is how many nodes could take a request.
func (s *setup) room(r *model.Request) int { return len(s.Search(r, score.DefaultWeights(), 1000)) }

func request(t *testing.T, p *v1.Pod) *model.Request {
	t.Helper()
	r, err := dialect.Request(p)
	must(t, err)
	return r
}

// heldBy is what a pod holds.
func (s *setup) heldBy(p *v1.Pod) (node model.NodeID, set model.Mask) {
	s.do("test", func(d *driver, _ time.Time) { node, set = d.core.Nodes.Held(model.HolderID(p.UID)) })
	return node, set
}

// held is how many of all pods that ever were hold something.
func (s *setup) held() (n int) {
	s.do("test", func(d *driver, _ time.Time) {
		for _, h := range s.seen {
			if _, set := d.core.Nodes.Held(h); set != 0 {
				n++
			}
		}
	})
	return n
}

// release is a pod's release, which it must have.
func (s *setup) release(p *v1.Pod) engine.Release {
	s.t.Helper()
	c, ok := s.Begin(p)
	if !ok || !s.gate.Released(p) || s.gate.Waits(p) || !s.gate.Manages(p) {
		s.t.Fatalf("%s is not released: begins %v, released %v, waits %v, managed %v", p.Name, ok, s.gate.Released(p), s.gate.Waits(p), s.gate.Manages(p))
	}
	return c.Release
}

// releases are the releases of several pods.
func (s *setup) releases(pods []*v1.Pod) (out []engine.Release) {
	s.t.Helper()
	for _, p := range pods {
		out = append(out, s.release(p))
	}
	return out
}

// gang creates a gang.
func (s *setup) gang(name string, n int, gpus int64, change ...func(*v1.Pod)) (pods []*v1.Pod) {
	for i := range n {
		p := s.member(fmt.Sprintf("%s%d", name, i), name, n, gpus)
		for _, c := range change {
			c(p)
		}
		s.addPod(p)
		pods = append(pods, p)
	}
	return pods
}

// planned creates a gang and lets it be planned.
func (s *setup) planned(name string, n int, gpus int64, change ...func(*v1.Pod)) ([]*v1.Pod, []engine.Release) {
	s.t.Helper()
	pods := s.gang(name, n, gpus, change...)
	if turn := s.Step(); len(turn.Activate) != n {
		s.t.Fatalf("%d of %s are activated, want %d", len(turn.Activate), name, n)
	}
	return pods, s.releases(pods)
}

// bind plays GPUBind: the pod is bound with its record and the queue that is charged.
func (s *setup) bind(p *v1.Pod, r engine.Release) {
	s.t.Helper()
	bound := s.latest(p.Name).DeepCopy()
	bound.Spec.NodeName = string(r.Node.ID)
	text, err := record.Encode(dialect.Record(request(s.t, p), r.Node, r.Grant))
	must(s.t, err)
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, names.AnnotationDevices, text)
	s.do("test", func(d *driver, _ time.Time) {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, names.AnnotationCharged, d.core.Gangs.QueueOf(model.HolderID(p.UID)))
	})
	bound.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
	s.addPod(bound)
}

// runs creates a gang and lets it be bound.
func (s *setup) runs(name string, n int, gpus int64, change ...func(*v1.Pod)) []*v1.Pod {
	s.t.Helper()
	pods, releases := s.planned(name, n, gpus, change...)
	for i, p := range pods { // all are at Permit before the first is bound
		if _, _, ok := s.Reserved(p, releases[i].Ticket); !ok {
			s.t.Fatalf("%s has lost its place", p.Name)
		}
	}
	for i, p := range pods {
		s.bind(p, releases[i])
	}
	s.Step()
	for _, p := range pods {
		if s.gate.Released(p) {
			s.t.Fatalf("%s is bound and still released", p.Name)
		}
	}
	return pods
}

// told lets time pass until waiting pods are told something new, and answers lookups
// with nothing.
func (s *setup) told() []report.Notice {
	s.t.Helper()
	for range 100 {
		turn := s.after(report.Every / 20)
		for _, l := range turn.Lookups {
			s.Succeeded(l, nil, true)
		}
		if len(turn.Notices) > 0 {
			return turn.Notices
		}
	}
	s.t.Fatal("nothing is told")
	return nil
}
