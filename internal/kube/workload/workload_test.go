package workload

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is gangs over a store of pods, at a time that the test moves.
type world struct {
	*Gangs
	t     *testing.T
	store cache.Indexer
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	store, spaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	reader := &Reader{Namespaces: corelisters.NewNamespaceLister(spaces), Levels: topology.DefaultLevels}
	reader.Own(names.SchedulerName, Profile{})
	return &world{Gangs: New(reader, corelisters.NewPodLister(store), Objects{}), t: t, store: store, now: start}
}

// pod is one of this scheduler's, in a gang when that is named.
func (w *world) pod(name, gang string, size int, gpus int64) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.now),
			Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}},
	}
	if gang != "" {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = gang, fmt.Sprint(size)
	}
	return p
}

func (w *world) set(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		if err := w.store.Update(p); err != nil {
			w.t.Fatal(err)
		}
		w.Set(p, w.now)
	}
}

func (w *world) gone(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		if err := w.store.Delete(p); err != nil {
			w.t.Fatal(err)
		}
		w.Forget(p, w.now)
	}
}

func noPlace(model.HolderID) bool { return false }

// describe is a gang that must exist.
func (w *world) describe(id engine.ID) engine.Gang {
	w.t.Helper()
	g, ok := w.Describe(id, w.now, noPlace)
	if !ok {
		w.t.Fatalf("there is no gang %q", id)
	}
	return g
}

// TestLearned: how long gangs run is learned from those that ended by themselves, and
// expected of their like.
func TestLearned(t *testing.T) {
	w := newWorld(t)
	alone := func(name, image, kind string) *v1.Pod {
		p := w.pod(name, "", 0, 1)
		p.Spec.Containers[0].Image = image
		if kind != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: &yes}}
		}
		return p
	}
	expected := func(p *v1.Pod) time.Duration {
		t.Helper()
		w.set(p)
		defer w.gone(p)
		return w.describe("pod/" + engine.ID(p.UID)).Runtime
	}
	runs := func(name string, ran time.Duration, end func(*v1.Pod)) {
		p := alone(name, "train", "")
		p.Spec.NodeName = "n0"
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
		w.set(p)
		w.now = w.now.Add(ran)
		if end != nil {
			p = p.DeepCopy()
			end(p)
			w.set(p)
		}
		w.gone(p)
	}
	if d := expected(alone("first", "train", "")); d != 0 {
		t.Errorf("the first of its kind is expected to run for %s", d)
	}
	runs("a", 2*time.Hour, nil)
	runs("b", 4*time.Hour, nil)
	if d := expected(alone("next", "train", "")); d != 3*time.Hour {
		t.Errorf("expected to run for %s after 2h and 4h", d)
	}
	runs("c", time.Minute, func(p *v1.Pod) { now := metav1.NewTime(w.now); p.DeletionTimestamp = &now })
	if d := expected(alone("then", "train", "")); d != 3*time.Hour {
		t.Errorf("one that was deleted was learned from: %s", d)
	}
	if d := expected(alone("serves", "train", "ReplicaSet")); d != 0 {
		t.Errorf("a service is expected to end after %s", d)
	}
	declared := alone("declared", "train", "")
	declared.Annotations[names.AnnotationRuntime] = "10m"
	if d := expected(declared); d != 10*time.Minute {
		t.Errorf("a pod that declares 10m is expected to run for %s", d)
	}
}

// TestNothingKept: pods that come and go leave nothing behind.
func TestNothingKept(t *testing.T) {
	w := newWorld(t)
	yes := true
	for i, gang := range []string{"", "g"} {
		a, b := w.pod("a", gang, 2, 1), w.pod("b", gang, 2, 1)
		b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: &yes}}
		w.set(a, b)
		if pods, _ := w.Size(); pods != 2 {
			t.Fatalf("%d pods are known", pods)
		}
		w.gone(a, b)
		w.Changed()
		w.now = w.now.Add(time.Hour)
		w.Due(w.now)
		if n := len(w.groups) + len(w.members) + len(w.changed) + len(w.owners.pods) + len(w.owners.names) + len(w.freed) + len(w.shapes) + len(w.alarms); n > 0 {
			t.Errorf("%d: left %+v", i, w.Gangs)
		}
	}
}

// TestShapes: pods that Kubernetes' own rules treat alike have one shape, and no others:
// what filters say of one of a shape holds for all (hole H3).
func TestShapes(t *testing.T) {
	w := newWorld(t)
	shape := func(change func(*v1.Pod)) engine.Shape {
		t.Helper()
		p := w.pod("p", "", 0, 1)
		change(p)
		w.set(p)
		defer w.gone(p)
		return w.Member(model.HolderID(p.UID)).Shape
	}
	same := shape(func(*v1.Pod) {})
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	for name, change := range map[string]func(*v1.Pod){
		"another name":  func(p *v1.Pod) { p.Name = "q" },
		"another label": func(p *v1.Pod) { p.Labels["x"] = "y" },
		"another image": func(p *v1.Pod) { p.Spec.Containers[0].Image = "x" },
		"another config map": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}
		},
	} {
		if shape(change) != same {
			t.Errorf("%s: is another shape", name)
		}
	}
	seen := map[engine.Shape]string{same: "a plain pod"}
	for name, change := range map[string]func(*v1.Pod){
		"namespace": func(p *v1.Pod) { p.Namespace = "other" },
		"GPUs": func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[names.ResourceNVIDIA] = resource.MustParse("2")
		},
		"CPU":        func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("200") },
		"an extra":   func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["rdma/hca"] = resource.MustParse("1") },
		"selector":   func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"toleration": func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "a"}} },
		"claim": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		},
		"ephemeral volume": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		},
		"CSI driver": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "x"}}}}
		},
		"resource claim": func(p *v1.Pod) {
			claim := "c"
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
		},
		"host port": func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"affinity": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "a", LabelSelector: selector}}}}
		},
		"spreading": func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "a", LabelSelector: selector}}
		},
		"spreading with labels": func(p *v1.Pod) {
			p.Labels["app"] = "a"
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "a", LabelSelector: selector}}
		},
	} {
		s := shape(change)
		if other := seen[s]; other != "" {
			t.Errorf("%s has the shape of %s", name, other)
		}
		seen[s] = name
	}
}

// TestMemberOrder: members start in the order of their creation, then by number.
func TestMemberOrder(t *testing.T) {
	w := newWorld(t)
	var pods []*v1.Pod
	for _, i := range []int{10, 2, 1} {
		pods = append(pods, w.pod(fmt.Sprintf("worker-%d", i), "g", 4, 1))
	}
	w.now = w.now.Add(-time.Minute)
	pods = append(pods, w.pod("z", "g", 4, 1))
	w.set(pods...)
	got := fmt.Sprint(w.describe("label/default/g").Roles[0].Members)
	if want := "[uid-z uid-worker-1 uid-worker-2 uid-worker-10]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestProtected: system-critical pods and those of protected namespaces make their gang
// one that is not evicted (hole H2).
func TestProtected(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"plain":           {func(*v1.Pod) {}, true},
		"kube-system":     {func(p *v1.Pod) { p.Namespace = "kube-system" }, false},
		"system-critical": {func(p *v1.Pod) { value := int32(systemPriority); p.Spec.Priority = &value }, false},
		"below it":        {func(p *v1.Pod) { value := int32(systemPriority - 1); p.Spec.Priority = &value }, true},
	} {
		w := newWorld(t)
		p := w.pod("p", "", 0, 1)
		tt.change(p)
		w.set(p)
		if got := w.describe("pod/uid-p").Preemptible; got != tt.want {
			t.Errorf("%s: preemptible %v", name, got)
		}
	}
	w := newWorld(t)
	w.reader.Protect([]string{"infra"})
	for space, want := range map[string]bool{"infra": false, "kube-system": true} {
		p := w.pod("p", "", 0, 1)
		p.Namespace = space
		w.set(p)
		if got := w.describe("pod/uid-p").Preemptible; got != want {
			t.Errorf("%s: preemptible %v where infra is protected", space, got)
		}
		w.gone(p)
	}
}

// A pod that names a PodGroup of a kind that is not served waits a moment for it: its
// definition may be new. Then it starts without.
func TestPodGroupNotServed(t *testing.T) {
	w := newWorld(t)
	p := w.pod("p", "", 0, 1)
	p.Annotations[names.AnnotationKubeGroup] = "g"
	w.set(p)
	if g, ok := w.Describe("podgroup/default/g", w.now, noPlace); ok {
		t.Errorf("starts at once: %+v", g)
	}
	if at := w.Next(); !at.After(w.now) {
		t.Fatalf("is looked at again at %s, now is %s", at, w.now)
	}
	w.now = w.Next()
	w.Due(w.now)
	if g := w.describe("podgroup/default/g"); g.Invalid != "" || g.Min > 1 {
		t.Errorf("%+v", g)
	}
}
