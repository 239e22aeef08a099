package scenario

import (
	"context"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// Grace periods: none, because there is no kubelet; and one that no test
// outlives, for a pod that is to be seen terminating.
var (
	noGrace   = int64(0)
	longGrace = int64(24 * 3600)
)

func (c *clusterEngine) Apply(ctx context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *v1.Node:
			c.written.Nodes[o.Name], err = c.applyNode(ctx, o)
		case *v1alpha1.GPUNode:
			c.written.GPUNodes[o.Name], err = c.applyGPUNode(ctx, o)
		case *unstructured.Unstructured:
			var now *unstructured.Unstructured
			if now, err = c.applyOther(ctx, o); err == nil {
				c.written.others(o)[o.GetName()] = now
			}
		case *v1.Namespace:
			c.written.Namespaces[o.Name], err = c.applyNamespace(ctx, o)
		case *policyv1.PodDisruptionBudget:
			c.written.Budgets[o.Name], err = c.applyBudget(ctx, o)
		case *v1.Pod:
			err = c.applyPod(ctx, o)
		case *schedulingv1.PriorityClass:
			err = c.applyClass(ctx, o)
		default:
			err = fmt.Errorf("%T: not an object of a story", object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyClass creates a PriorityClass, and returns once the API server's admission
// has heard of it: until then it refuses the pods that name it.
func (c *clusterEngine) applyClass(ctx context.Context, class *schedulingv1.PriorityClass) error {
	_, err := c.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	c.classes[class.Name] = true
	trial := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "trial"},
		Spec:       v1.PodSpec{PriorityClassName: class.Name, Containers: []v1.Container{{Name: "main", Image: "scenario"}}},
	}
	return until(ctx, func() bool {
		pod, err := c.client.CoreV1().Pods(askNamespace).Create(ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && pod.Spec.Priority != nil && *pod.Spec.Priority == class.Value
	})
}

func (c *clusterEngine) applyNode(ctx context.Context, given *v1.Node) (*v1.Node, error) {
	nodes, want := c.client.CoreV1().Nodes(), withExtra(given)
	node, err := nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if node, err = nodes.Create(ctx, want, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		return node, c.fill(ctx, want.Name)
	}
	if err != nil {
		return nil, err
	}
	node.Labels, node.Spec.Taints, node.Spec.Unschedulable = want.Labels, want.Spec.Taints, want.Spec.Unschedulable
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	node.Status = want.Status
	return nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
}

func (c *clusterEngine) applyGPUNode(ctx context.Context, want *v1alpha1.GPUNode) (*v1alpha1.GPUNode, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetUID("")
	now, err := c.gpuNodes.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now, err = c.gpuNodes.Create(ctx, object, metav1.CreateOptions{})
	case err == nil:
		object.SetResourceVersion(now.GetResourceVersion())
		now, err = c.gpuNodes.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(now.GetResourceVersion())
	if now, err = c.gpuNodes.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	out := &v1alpha1.GPUNode{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, out)
}

// applyPod creates a pod, or writes the status of one that exists. Only a pod
// that came with a node brings a status of its own. It returns once the informer
// has seen the pod, so that Observe is never behind the story.
func (c *clusterEngine) applyPod(ctx context.Context, want *v1.Pod) error {
	pods := c.client.CoreV1().Pods(want.Namespace)
	pod, err := pods.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if err := c.namespace(ctx, want.Namespace); err != nil {
			return err
		}
		created := want.DeepCopy()
		created.UID, created.CreationTimestamp, created.Spec.Priority = "", metav1.Time{}, nil // the server's to give
		if pod, err = pods.Create(ctx, created, metav1.CreateOptions{}); err != nil {
			return err
		}
		if want.Spec.NodeName == "" {
			return until(ctx, func() bool { return c.pod(pod.Namespace, pod.Name) != nil })
		}
	case err != nil:
		return err
	case want.DeletionTimestamp != nil:
		if err := pods.Delete(ctx, want.Name, metav1.DeleteOptions{GracePeriodSeconds: &longGrace}); err != nil {
			return err
		}
		return until(ctx, func() bool {
			now := c.pod(pod.Namespace, pod.Name)
			return now == nil || now.DeletionTimestamp != nil
		})
	}
	if !maps.Equal(pod.Labels, want.Labels) {
		return c.relabel(ctx, want)
	}
	pod.Status.Phase, pod.Status.Conditions = want.Status.Phase, want.Status.Conditions
	if _, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		return nil // the scheduler has deleted it
	} else if err != nil {
		return err
	}
	return until(ctx, func() bool {
		now := c.pod(pod.Namespace, pod.Name)
		if now == nil { // not seen yet, or deleted by the scheduler
			_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}
		return now.Status.Phase == want.Status.Phase
	})
}

// relabel writes a pod's labels, whatever else is written to it meanwhile.
func (c *clusterEngine) relabel(ctx context.Context, want *v1.Pod) error {
	pods := c.client.CoreV1().Pods(want.Namespace)
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := pods.Get(ctx, want.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Labels = want.Labels
		_, err = pods.Update(ctx, now, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	return until(ctx, func() bool {
		now := c.pod(want.Namespace, want.Name)
		return now != nil && maps.Equal(now.Labels, want.Labels)
	})
}

// pod returns a pod as the informer last saw it, or nil.
func (c *clusterEngine) pod(namespace, name string) *v1.Pod {
	object, ok, _ := c.pods.GetStore().GetByKey(namespace + "/" + name) // a store in memory knows no error
	if !ok {
		return nil
	}
	return object.(*v1.Pod)
}

// until looks until something holds.
func until(ctx context.Context, holds func() bool) error {
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) { return holds(), nil })
}

func (c *clusterEngine) namespace(ctx context.Context, name string) error {
	if name == metav1.NamespaceDefault {
		return nil
	}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *clusterEngine) Delete(ctx context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *v1.Node:
			delete(c.written.Nodes, o.Name)
			err = c.client.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{})
			if err == nil && c.pod(askNamespace, filler(o.Name).Name) != nil {
				err = c.Delete(ctx, filler(o.Name))
			}
		case *v1alpha1.GPUNode:
			delete(c.written.GPUNodes, o.Name)
			err = c.gpuNodes.Delete(ctx, o.Name, metav1.DeleteOptions{})
		case *unstructured.Unstructured:
			delete(c.written.others(o), o.GetName())
			err = c.other(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		case *v1.Namespace: // it stays, without its quota
			delete(c.written.Namespaces, o.Name)
			bare := o.DeepCopy()
			bare.Annotations = nil
			_, err = c.applyNamespace(ctx, bare)
		case *policyv1.PodDisruptionBudget:
			delete(c.written.Budgets, o.Name)
			err = c.client.PolicyV1().PodDisruptionBudgets(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		case *v1.Pod:
			err = c.client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{GracePeriodSeconds: &noGrace})
			if err == nil || apierrors.IsNotFound(err) {
				err = until(ctx, func() bool { return c.pod(o.Namespace, o.Name) == nil })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wipe deletes all that the story made, namespaces excepted: without a controller
// manager their deletion would not end.
func (c *clusterEngine) wipe(ctx context.Context) error {
	var objects []metav1.Object
	for _, object := range c.pods.GetStore().List() {
		objects = append(objects, object.(*v1.Pod))
	}
	for _, n := range c.written.Nodes {
		objects = append(objects, n)
	}
	for _, n := range c.written.GPUNodes {
		objects = append(objects, n)
	}
	for _, list := range []map[string]*unstructured.Unstructured{c.written.Topologies, c.written.PodGroups, c.written.Queues} {
		for _, o := range list {
			objects = append(objects, o)
		}
	}
	for _, n := range c.written.Namespaces {
		objects = append(objects, n)
	}
	for _, b := range c.written.Budgets {
		objects = append(objects, b)
	}
	if err := c.Delete(ctx, objects...); err != nil {
		return err
	}
	for name := range c.classes {
		if err := c.client.SchedulingV1().PriorityClasses().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	clear(c.classes)
	for _, e := range c.complaints() {
		if err := c.client.EventsV1().Events(e.Namespace).Delete(ctx, e.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return until(ctx, func() bool { return len(c.complaints()) == 0 })
}

// complaints are the events that the ledger's reporter wrote.
func (c *clusterEngine) complaints() []*eventsv1.Event {
	var out []*eventsv1.Event
	for _, object := range c.events.GetStore().List() {
		if e := object.(*eventsv1.Event); ours(e.Regarding.Kind, e.Reason) {
			out = append(out, e)
		}
	}
	return out
}

func (c *clusterEngine) Observe(context.Context) (*State, error) {
	out := c.written.shallow()
	for _, object := range c.pods.GetStore().List() {
		if pod := object.(*v1.Pod); !asking(pod.Namespace) {
			out.Pods[pod.Name] = pod.DeepCopy()
		}
	}
	for _, e := range c.complaints() {
		out.Warnings = append(out.Warnings, Warning{e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note})
	}
	return out, nil
}
