package replica

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a cluster of nodes n0, n1, ... of eight GPUs each.
func world(nodes int) *kubeengine.Snapshot {
	s := kubeengine.NewSnapshot(start, names.SchedulerName, names.VolcanoSchedulerName)
	for i := range nodes {
		s.Nodes = append(s.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			names.ResourceNVIDIA: resource.MustParse("8"), v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("512Gi"), v1.ResourcePods: resource.MustParse("110")}}})
	}
	s.Namespaces = append(s.Namespaces, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for _, kind := range append(dialect.Watched(), dialect.Queues, dialect.Priorities) {
		s.Groups[kind] = nil
	}
	return s
}

// class adds a PriorityClass.
func class(s *kubeengine.Snapshot, name string, value int64) {
	s.Groups[dialect.Priorities] = append(s.Groups[dialect.Priorities], &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": map[string]any{"name": name}, "value": value}})
}

// pod is one that waits.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Containers: []v1.Container{{Name: "main", Image: "registry.example/secret:1", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}}}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// on makes a pod run on a node since a time.
func on(node string, since time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.NodeName = node
		p.Status.Phase = v1.PodRunning
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-since))}}
	}
}

func lasting(d string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationRuntime] = d }
}

func priorityOf(value int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &value } }

// stateOf is a snapshot that is asked.
func stateOf(s *kubeengine.Snapshot) *State { return &State{snapshot: s, limits: DefaultLimits()} }

// reasonOf is why a gang waits.
func reasonOf(r *Replica, id engine.ID) (out explain.Reason) {
	r.engine.Sync()
	r.look(func(v *answer.View) { out = v.Core.Reasons.Why(id) })
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
