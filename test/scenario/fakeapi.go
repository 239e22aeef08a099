package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// fakeAPI is the little of an API server that a scheduler needs: client-go's
// fake clientset, taught to bind pods and to hide pods that ended from those who
// ask so, a source of GPUNodes, and a recorder of events.
type fakeAPI struct {
	client     *fake.Clientset
	gpuNodes   *cachetesting.FakeControllerSource
	topologies *cachetesting.FakeControllerSource

	mu       sync.Mutex
	stored   map[string]*v1alpha1.GPUNode
	aligned  map[string]*unstructured.Unstructured // NodeResourceTopologies
	warnings []Warning
}

func newFakeAPI() *fakeAPI {
	a := &fakeAPI{
		client:     fake.NewClientset(),
		gpuNodes:   cachetesting.NewFakeControllerSource(),
		topologies: cachetesting.NewFakeControllerSource(),
		stored:     map[string]*v1alpha1.GPUNode{},
		aligned:    map[string]*unstructured.Unstructured{},
	}
	a.client.PrependReactor("create", "pods", a.bind)
	a.client.PrependReactor("list", "pods", a.listLive)
	a.client.PrependWatchReactor("pods", a.watchLive)
	return a
}

// bind does what the API server does with a Binding: node, annotations and
// condition in one write, or a conflict.
func (a *fakeAPI) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	object, err := a.client.Tracker().Get(action.GetResource(), binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := object.(*v1.Pod).DeepCopy()
	if pod.UID != binding.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), pod.Name,
			fmt.Errorf("it is bound to %q, or another pod, or being deleted", pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
	return true, binding, a.client.Tracker().Update(action.GetResource(), pod, pod.Namespace)
}

// wantsLive recognises the field selector of the scheduler's pod informer, which
// client-go's fake ignores.
func wantsLive(r clienttesting.ListRestrictions) bool {
	return r.Fields != nil && !r.Fields.Empty()
}

func (a *fakeAPI) listLive(action clienttesting.Action) (bool, runtime.Object, error) {
	list, ok := action.(clienttesting.ListActionImpl)
	if !ok || !wantsLive(list.GetListRestrictions()) {
		return false, nil, nil
	}
	object, err := a.client.Tracker().List(action.GetResource(), list.GetKind(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	pods := object.(*v1.PodList)
	pods.Items = slices.DeleteFunc(pods.Items, func(p v1.Pod) bool { return ended(&p) })
	return true, pods, nil
}

// watchLive shows the end of a pod as its deletion.
func (a *fakeAPI) watchLive(action clienttesting.Action) (bool, watch.Interface, error) {
	w, ok := action.(clienttesting.WatchActionImpl)
	if !ok || w.WatchRestrictions.Fields == nil || w.WatchRestrictions.Fields.Empty() {
		return false, nil, nil
	}
	source, err := a.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), w.ListOptions)
	if err != nil {
		return true, nil, err
	}
	return true, watch.Filter(source, func(e watch.Event) (watch.Event, bool) {
		if pod, ok := e.Object.(*v1.Pod); ok && ended(pod) {
			e.Type = watch.Deleted
		}
		return e, true
	}), nil
}

// apply creates or replaces an object.
func (a *fakeAPI) apply(ctx context.Context, object metav1.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		nodes := a.client.CoreV1().Nodes()
		_, err := nodes.Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = nodes.Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	case *v1.Pod:
		pods := a.client.CoreV1().Pods(o.Namespace)
		_, err := pods.Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = pods.Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	case *v1alpha1.GPUNode:
		a.mu.Lock()
		defer a.mu.Unlock()
		_, exists := a.stored[o.Name]
		a.stored[o.Name] = o.DeepCopy()
		if exists {
			a.gpuNodes.Modify(o.DeepCopy())
		} else {
			a.gpuNodes.Add(o.DeepCopy())
		}
	case *unstructured.Unstructured:
		a.mu.Lock()
		defer a.mu.Unlock()
		_, exists := a.aligned[o.GetName()]
		a.aligned[o.GetName()] = o.DeepCopy()
		if exists {
			a.topologies.Modify(o.DeepCopy())
		} else {
			a.topologies.Add(o.DeepCopy())
		}
	}
	return nil // PriorityClasses: their number is on the pod
}

func (a *fakeAPI) delete(ctx context.Context, object metav1.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		return a.client.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *v1.Pod:
		return a.client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *v1alpha1.GPUNode:
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.stored, o.Name)
		a.gpuNodes.Delete(o.DeepCopy())
	case *unstructured.Unstructured:
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.aligned, o.GetName())
		a.topologies.Delete(o.DeepCopy())
	}
	return nil
}

// state lists everything.
func (a *fakeAPI) state(ctx context.Context) (*State, error) {
	out := newState()
	nodes, err := a.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		out.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	pods, err := a.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		out.Pods[pods.Items[i].Name] = &pods.Items[i]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, gn := range a.stored {
		out.GPUNodes[name] = gn.DeepCopy()
	}
	for name, t := range a.aligned {
		out.Topologies[name] = t.DeepCopy()
	}
	out.Warnings = slices.Clone(a.warnings)
	return out, nil
}

// recorder keeps the ledger's complaints; kube-scheduler's own events say what
// conditions say too.
type recorder struct{ api *fakeAPI }

var _ events.EventRecorderLogger = recorder{}

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if !ours(reason) {
		return
	}
	w := Warning{Reason: reason, Note: fmt.Sprintf(note, args...)}
	if ref, ok := regarding.(*v1.ObjectReference); ok {
		w.Kind, w.Name = ref.Kind, ref.Name
	} else if object, err := meta.Accessor(regarding); err == nil {
		w.Kind, w.Name = regarding.GetObjectKind().GroupVersionKind().Kind, object.GetName()
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.warnings = append(r.api.warnings, w)
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
