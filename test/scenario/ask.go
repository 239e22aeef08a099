package scenario

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
)

// Nothing orders objects of different kinds for a scheduler, so a story lets it catch up
// before it goes on: with pods by a pod that is created last and answered, with Queues
// and quotas by one of each that is written last and shows in a pod's reason.

// askNamespace and quotaNamespace hold the pods that are questions; they are no part of
// a story.
const (
	askNamespace   = "scenario-questions"
	quotaNamespace = "scenario-quotas"
)

// asking says whether a namespace is for questions.
func asking(namespace string) bool { return namespace == askNamespace || namespace == quotaNamespace }

// caughtUp returns once the scheduler has seen all pods that were applied.
func (s *story) caughtUp(ctx context.Context) error {
	pod := s.unplaceable(askNamespace)
	return s.engine.Ask(ctx, pod, func(string) bool { return true })
}

// queuesSeen returns once the scheduler has seen all Queues that were applied: a last
// one, which allows nothing, shows in the reason of a pod.
func (s *story) queuesSeen(ctx context.Context) error {
	s.markers++
	name := fmt.Sprintf("scenario-%d", s.markers)
	marker := queueObject(name, map[string]any{"capability": map[string]any{names.ResourceNVIDIA: "0"}}, nil)
	if err := s.engine.Apply(ctx, marker); err != nil {
		return err
	}
	pod := s.unplaceable(askNamespace)
	pod.Labels[names.LabelQueue] = name
	if err := s.engine.Ask(ctx, pod, func(answer string) bool { return strings.Contains(answer, "may use 0") }); err != nil {
		return fmt.Errorf("the scheduler has not seen queue %s: %w", name, err)
	}
	return s.engine.Delete(ctx, marker)
}

// quotasSeen is the same for quotas of namespaces: the number of the last one shows.
func (s *story) quotasSeen(ctx context.Context) error {
	s.markers++
	marker := namespaceObject(quotaNamespace, fmt.Sprintf("%s=%d", names.ResourceNVIDIA, s.markers%maxMarker))
	if err := s.engine.Apply(ctx, marker); err != nil {
		return err
	}
	shows := fmt.Sprintf("may use %d nvidia GPUs", s.markers%maxMarker)
	err := s.engine.Ask(ctx, s.unplaceable(quotaNamespace), func(answer string) bool { return strings.Contains(answer, shows) })
	if err != nil {
		return fmt.Errorf("the scheduler has not seen the quotas: %w", err)
	}
	return s.engine.Delete(ctx, marker)
}

// maxMarker is below what one pod may ask for.
const maxMarker = 60

// unplaceable is a pod that asks for more than any node of a story has.
func (s *story) unplaceable(namespace string) *v1.Pod {
	s.markers++
	amount := v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(64, resource.DecimalSI)}
	name := fmt.Sprintf("marker-%d", s.markers)
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(s.engine.Now())},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers:    []v1.Container{{Name: "main", Image: "scenario", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount}}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// queueObject is a Volcano Queue.
func queueObject(name string, spec map[string]any, annotations map[string]string) *unstructured.Unstructured {
	q := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kindQueue, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if len(annotations) > 0 {
		q.SetAnnotations(annotations)
	}
	return q
}

// namespaceObject is a Namespace with a quota; without one when it is empty.
func namespaceObject(name, quota string) *v1.Namespace {
	ns := &v1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if quota != "" {
		ns.Annotations = map[string]string{names.AnnotationQuota: quota}
	}
	return ns
}
