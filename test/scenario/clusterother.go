package scenario

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// Kinds of objects without types of ours.
const (
	kindQueue    = "Queue"
	kindPodGroup = "PodGroup"
)

// others are the objects of a state that are of one kind with another.
func (s *State) others(o *unstructured.Unstructured) map[string]*unstructured.Unstructured {
	switch o.GetKind() {
	case kindQueue:
		return s.Queues
	case kindPodGroup:
		return s.PodGroups
	}
	return s.Topologies
}

// other is the API server's resource of an object.
func (c *clusterEngine) other(o *unstructured.Unstructured) dynamic.ResourceInterface {
	switch o.GetKind() {
	case kindQueue:
		return c.objects.Resource(dialect.Queues)
	case kindPodGroup:
		return c.objects.Resource(dialect.PodGroups).Namespace(o.GetNamespace())
	}
	return c.objects.Resource(dialect.NodeTopologies)
}

// applyOther writes a Queue, PodGroup or NodeResourceTopology, status included, and
// keeps what the server made of it.
func (c *clusterEngine) applyOther(ctx context.Context, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := want.DeepCopy()
	now, err := c.other(want).Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now, err = c.other(want).Create(ctx, object, metav1.CreateOptions{})
	case err == nil:
		object.SetResourceVersion(now.GetResourceVersion())
		now, err = c.other(want).Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil || want.Object["status"] == nil {
		return now, err
	}
	object.SetResourceVersion(now.GetResourceVersion())
	return c.other(want).UpdateStatus(ctx, object, metav1.UpdateOptions{})
}

// applyNamespace writes a namespace's annotations.
func (c *clusterEngine) applyNamespace(ctx context.Context, want *v1.Namespace) (*v1.Namespace, error) {
	if err := c.namespace(ctx, want.Name); err != nil {
		return nil, err
	}
	now, err := c.client.CoreV1().Namespaces().Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	now.Annotations = want.Annotations
	return c.client.CoreV1().Namespaces().Update(ctx, now, metav1.UpdateOptions{})
}

// applyBudget writes a disruption budget. No controller keeps its status, so that is
// written, too.
func (c *clusterEngine) applyBudget(ctx context.Context, want *policyv1.PodDisruptionBudget) (*policyv1.PodDisruptionBudget, error) {
	budgets := c.client.PolicyV1().PodDisruptionBudgets(want.Namespace)
	now, err := budgets.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		now, err = budgets.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, err
	}
	now.Status = want.Status
	now.Status.ObservedGeneration = now.Generation
	return budgets.UpdateStatus(ctx, now, metav1.UpdateOptions{})
}
