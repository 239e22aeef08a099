package scenario

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// askNamespace holds the pods that are questions; they are no part of a story.
const askNamespace = "scenario-questions"

// Grace periods: none, because nobody plays kubelet; and one that no test
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
			err = c.applyNode(ctx, o)
		case *v1alpha1.GPUNode:
			err = c.applyGPUNode(ctx, o)
		case *v1.Pod:
			err = c.applyPod(ctx, o)
		case *schedulingv1.PriorityClass:
			_, err = c.client.SchedulingV1().PriorityClasses().Create(ctx, o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
		default:
			err = fmt.Errorf("%T: not an object of a story", object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *clusterEngine) applyNode(ctx context.Context, want *v1.Node) error {
	nodes := c.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	node.Labels, node.Spec.Taints = want.Labels, want.Spec.Taints
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	node.Status = want.Status
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func (c *clusterEngine) applyGPUNode(ctx context.Context, want *v1alpha1.GPUNode) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
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
	if err != nil || len(want.Status.Devices) == 0 {
		return err
	}
	object.SetResourceVersion(now.GetResourceVersion())
	_, err = c.gpuNodes.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

// applyPod creates a pod, or writes the status of one that exists. Only a pod
// that came with a node brings a status of its own.
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
		if pod, err = pods.Create(ctx, created, metav1.CreateOptions{}); err != nil || want.Spec.NodeName == "" {
			return err
		}
	case err != nil:
		return err
	case want.DeletionTimestamp != nil:
		return pods.Delete(ctx, want.Name, metav1.DeleteOptions{GracePeriodSeconds: &longGrace})
	}
	pod.Status.Phase, pod.Status.Conditions = want.Status.Phase, want.Status.Conditions
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
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
			err = c.client.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{})
		case *v1alpha1.GPUNode:
			err = c.gpuNodes.Delete(ctx, o.Name, metav1.DeleteOptions{})
		case *v1.Pod:
			err = c.client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{GracePeriodSeconds: &noGrace})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wipe deletes all that stories make, namespaces excepted: without a controller
// manager nobody would finish that.
func (c *clusterEngine) wipe(ctx context.Context) error {
	now, all := metav1.DeleteOptions{GracePeriodSeconds: &noGrace}, metav1.ListOptions{}
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return err
	}
	for _, ns := range namespaces.Items {
		if err := errors.Join(
			c.client.CoreV1().Pods(ns.Name).DeleteCollection(ctx, now, all),
			c.client.EventsV1().Events(ns.Name).DeleteCollection(ctx, now, all),
		); err != nil {
			return err
		}
	}
	classes, err := c.client.SchedulingV1().PriorityClasses().List(ctx, all)
	if err != nil {
		return err
	}
	for _, class := range classes.Items {
		if class.Value < 1_000_000_000 { // above are the system's own
			if err := c.client.SchedulingV1().PriorityClasses().Delete(ctx, class.Name, now); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		c.client.CoreV1().Nodes().DeleteCollection(ctx, now, all),
		c.gpuNodes.DeleteCollection(ctx, now, all),
	)
}

func (c *clusterEngine) Observe(ctx context.Context) (*State, error) {
	out, all := newState(), metav1.ListOptions{}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		out.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	gpuNodes, err := c.gpuNodes.List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, object := range gpuNodes.Items {
		gn := &v1alpha1.GPUNode{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, gn); err != nil {
			return nil, err
		}
		out.GPUNodes[gn.Name] = gn
	}
	pods, err := c.client.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Namespace != askNamespace {
			out.Pods[pods.Items[i].Name] = &pods.Items[i]
		}
	}
	events, err := c.client.EventsV1().Events("").List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		if ours(e.Reason) {
			out.Warnings = append(out.Warnings, Warning{e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note})
		}
	}
	return out, nil
}
