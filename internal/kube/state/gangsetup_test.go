package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// gangSetup is a cluster whose pods are ours to place, with sources of all kinds. The
// test plays kube-scheduler.
type gangSetup struct {
	*setup
	groups map[schema.GroupVersionResource]*cachetesting.FakeControllerSource
}

func newGangSetup(t *testing.T, nodes int, kinds ...schema.GroupVersionResource) *gangSetup {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &gangSetup{&setup{t: t, client: fake.NewClientset(), gpuNodes: cachetesting.NewFakeControllerSource()}, map[schema.GroupVersionResource]*cachetesting.FakeControllerSource{}}
	from := Sources{GPUNodes: s.gpuNodes, Groups: map[schema.GroupVersionResource]cache.ListerWatcher{}}
	for _, kind := range kinds {
		s.groups[kind] = cachetesting.NewFakeControllerSource()
		from.Groups[kind] = s.groups[kind]
	}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	// Callbacks lead to kube-scheduler's queue, which asks the cluster under its own
	// lock: nobody may call them under the cluster's.
	unlocked := func() {
		if s.Cluster != nil && !s.Cluster.mu.TryLock() {
			return // somebody else may hold it; a real deadlock hangs the test
		}
		s.Cluster.mu.Unlock()
	}
	c, err := New(ctx, factory, from, func(o *v1.ObjectReference, _, message string) {
		unlocked()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = append(s.reports, o.Kind+" "+o.Name+": "+message)
	}, func(*Cluster, model.NodeID) { unlocked() })
	if err != nil {
		t.Fatal(err)
	}
	s.Cluster = c
	c.Own(names.SchedulerName, Profile{})
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		s.gpuNodes.Shutdown()
		for _, source := range s.groups {
			source.Shutdown()
		}
	})
	for i := range nodes {
		s.addNode(testNode(fmt.Sprintf("n%d", i), 8))
	}
	if !c.WaitForSync(ctx) {
		t.Fatal("no sync")
	}
	s.eventually("nodes known", func() bool { return s.room(request(t, testPod("x", 8))) == nodes })
	return s
}

func member(name, gang string, size int, gpus int64) *v1.Pod {
	p := testPod(name, gpus)
	p.Spec.SchedulerName = names.SchedulerName
	p.CreationTimestamp = metav1.Now()
	p.Labels = map[string]string{}
	if gang != "" {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = gang, fmt.Sprint(size)
	}
	return p
}

// known waits until the cluster tracks so many pods.
func (s *gangSetup) tracked(n int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d pods tracked", n), func() bool {
		s.Cluster.mu.Lock()
		defer s.Cluster.mu.Unlock()
		return len(s.gangs.member) == n
	})
}

// gangOf4 creates a gang of four and lets it be planned.
func (s *gangSetup) gangOf4(gpus int64) (pods []*v1.Pod, releases []*Release) {
	s.t.Helper()
	for i := range 4 {
		p := member(fmt.Sprintf("m%d", i), "g", 4, gpus)
		s.addPod(p)
		pods = append(pods, p)
	}
	s.tracked(4)
	turn := s.Dispatch(time.Now())
	if len(turn.Wake) != 4 {
		s.t.Fatalf("%d woken, want 4", len(turn.Wake))
	}
	for _, p := range pods {
		releases = append(releases, s.ReleaseOf(p))
		if standing, _ := s.StandingOf(p); standing != Released {
			s.t.Fatalf("%s: standing %d", p.Name, standing)
		}
	}
	return pods, releases
}

// bind plays GPUBind: the pod is bound with its record.
func (s *gangSetup) bindTo(p *v1.Pod, r *Release) {
	s.t.Helper()
	bound := p.DeepCopy()
	bound.Spec.NodeName = string(r.Node.ID)
	text, err := record.Encode(dialect.Record(request(s.t, p), r.Node, r.Grant))
	if err != nil {
		s.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, names.AnnotationDevices, text)
	if _, err := s.client.CoreV1().Pods(p.Namespace).Update(context.Background(), bound, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *gangSetup) deletePod(name string) {
	s.t.Helper()
	if err := s.client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// held is how many holders the ledger knows.
func (s *gangSetup) held() int {
	s.Cluster.mu.Lock()
	defer s.Cluster.mu.Unlock()
	_, holders := s.ledger.Size()
	return holders
}
