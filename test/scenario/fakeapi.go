package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
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
	client   *fake.Clientset
	gpuNodes *cachetesting.FakeControllerSource
	// Sources of objects that the clientset has no types for.
	topologies, queues, podGroups *cachetesting.FakeControllerSource

	// writes makes Bindings, evictions and statuses of pods follow each other; lastVersion is the
	// resource version of the last.
	writes      sync.Mutex
	lastVersion int

	mu sync.Mutex
	// stored are the objects that the clientset does not keep.
	stored   *State
	warnings []Warning
}

func newFakeAPI() *fakeAPI {
	a := &fakeAPI{
		client:     fake.NewClientset(),
		gpuNodes:   cachetesting.NewFakeControllerSource(),
		topologies: cachetesting.NewFakeControllerSource(),
		queues:     cachetesting.NewFakeControllerSource(),
		podGroups:  cachetesting.NewFakeControllerSource(),
		stored:     newState(),
	}
	a.client.PrependReactor("create", "pods", a.version)
	a.client.PrependReactor("update", "pods", a.version)
	a.client.PrependReactor("create", "pods", a.evict)
	a.client.PrependReactor("update", "pods", a.updateStatus)
	a.client.PrependReactor("create", "pods", a.bind)
	a.client.PrependReactor("list", "pods", a.listLive)
	a.client.PrependWatchReactor("pods", a.watchLive)
	return a
}

// version does what the API server does with a pod that people write: it gets a resource
// version.
func (a *fakeAPI) version(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "" {
		return false, nil, nil
	}
	a.writes.Lock()
	defer a.writes.Unlock()
	pod := action.(interface{ GetObject() runtime.Object }).GetObject().(*v1.Pod).DeepCopy()
	if action.GetVerb() == "create" {
		a.newVersion(pod)
		return true, pod, a.client.Tracker().Create(action.GetResource(), pod, pod.Namespace)
	}
	return true, pod, a.update(pod)
}

// update stores a pod under a new resource version.
func (a *fakeAPI) update(pod *v1.Pod) error {
	a.newVersion(pod)
	return a.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
}

func (a *fakeAPI) newVersion(pod *v1.Pod) {
	a.lastVersion++
	pod.ResourceVersion = strconv.Itoa(a.lastVersion)
}

// bind does what the API server does with a Binding: node, annotations and
// condition in one write, or a conflict.
func (a *fakeAPI) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	a.writes.Lock()
	defer a.writes.Unlock()
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
	return true, binding, a.update(pod)
}

// updateStatus does what the API server does with a pod's status: nothing else is
// written, and nothing at all for a pod that was bound or edited meanwhile.
func (a *fakeAPI) updateStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "status" {
		return false, nil, nil
	}
	a.writes.Lock()
	defer a.writes.Unlock()
	sent := action.(clienttesting.UpdateAction).GetObject().(*v1.Pod)
	object, err := a.client.Tracker().Get(action.GetResource(), sent.Namespace, sent.Name)
	if err != nil {
		return true, nil, err
	}
	pod := object.(*v1.Pod).DeepCopy()
	if pod.UID != sent.UID || pod.Spec.NodeName != sent.Spec.NodeName || !maps.Equal(pod.Labels, sent.Labels) || !maps.Equal(pod.Annotations, sent.Annotations) {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), pod.Name, errors.New("the object has been modified"))
	}
	pod.Status = sent.Status
	return true, pod, a.update(pod)
}

// evict does what the API server does with an eviction: it keeps disruption budgets and
// the pod's grace period.
func (a *fakeAPI) evict(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	a.writes.Lock()
	defer a.writes.Unlock()
	eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
	object, err := a.client.Tracker().Get(action.GetResource(), eviction.Namespace, eviction.Name)
	if err != nil {
		return true, nil, err
	}
	pod := object.(*v1.Pod)
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.stored.budgetsOf(pod)
	if !a.stored.spend(pod) {
		return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	for _, name := range names {
		b := a.stored.Budgets[name].DeepCopy()
		if err := a.client.Tracker().Update(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), b, b.Namespace); err != nil {
			return true, nil, err
		}
	}
	if leaves := terminating(pod, time.Now()); leaves != nil {
		return true, eviction, a.update(leaves)
	}
	return true, eviction, a.client.Tracker().Delete(action.GetResource(), pod.Namespace, pod.Name)
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
	selects := list.GetListRestrictions().Fields
	pods.Items = slices.DeleteFunc(pods.Items, func(p v1.Pod) bool {
		return !selects.Matches(fields.Set{"status.phase": string(p.Status.Phase)})
	})
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
	case *v1.Namespace:
		a.keep(func(s *State) { s.Namespaces[o.Name] = o.DeepCopy() })
		_, err := a.client.CoreV1().Namespaces().Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = a.client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	case *policyv1.PodDisruptionBudget:
		a.keep(func(s *State) { s.Budgets[o.Name] = o.DeepCopy() })
		budgets := a.client.PolicyV1().PodDisruptionBudgets(o.Namespace)
		_, err := budgets.Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = budgets.Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	case *v1alpha1.GPUNode:
		a.mu.Lock()
		defer a.mu.Unlock()
		show(a.gpuNodes, a.stored.GPUNodes[o.Name] != nil, o.DeepCopy())
		a.stored.GPUNodes[o.Name] = o.DeepCopy()
	case *unstructured.Unstructured:
		a.mu.Lock()
		defer a.mu.Unlock()
		list := a.stored.others(o)
		show(a.sourceOf(o), list[o.GetName()] != nil, o.DeepCopy())
		list[o.GetName()] = o.DeepCopy()
	}
	return nil // PriorityClasses: their number is on the pod
}

// show tells watchers of an object that is new or changed.
func show(source *cachetesting.FakeControllerSource, exists bool, object runtime.Object) {
	if exists {
		source.Modify(object)
	} else {
		source.Add(object)
	}
}

// sourceOf is where objects without types are watched.
func (a *fakeAPI) sourceOf(o *unstructured.Unstructured) *cachetesting.FakeControllerSource {
	switch o.GetKind() {
	case kindQueue:
		return a.queues
	case kindPodGroup:
		return a.podGroups
	}
	return a.topologies
}

// keep changes what is stored here.
func (a *fakeAPI) keep(change func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a.stored)
}

func (a *fakeAPI) delete(ctx context.Context, object metav1.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		return a.client.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *v1.Pod:
		return a.client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *v1.Namespace:
		a.keep(func(s *State) { delete(s.Namespaces, o.Name) })
		return a.client.CoreV1().Namespaces().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *policyv1.PodDisruptionBudget:
		a.keep(func(s *State) { delete(s.Budgets, o.Name) })
		return a.client.PolicyV1().PodDisruptionBudgets(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *v1alpha1.GPUNode:
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.stored.GPUNodes, o.Name)
		a.gpuNodes.Delete(o.DeepCopy())
	case *unstructured.Unstructured:
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.stored.others(o), o.GetName())
		a.sourceOf(o).Delete(o.DeepCopy())
	}
	return nil
}

// state lists everything.
func (a *fakeAPI) state(ctx context.Context) (*State, error) {
	a.mu.Lock()
	out := a.stored.shallow()
	a.mu.Unlock()
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
		if p := &pods.Items[i]; !asking(p.Namespace) {
			out.Pods[p.Name] = p
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out.Warnings = slices.Clone(a.warnings)
	return out, nil
}

// recorder keeps the ledger's complaints; kube-scheduler's own events say what
// conditions say too.
type recorder struct{ api *fakeAPI }

var _ events.EventRecorderLogger = recorder{}

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	w := Warning{Reason: reason, Note: fmt.Sprintf(note, args...)}
	if ref, ok := regarding.(*v1.ObjectReference); ok {
		w.Kind, w.Name = ref.Kind, ref.Name
	} else if object, err := meta.Accessor(regarding); err == nil {
		w.Kind, w.Name = regarding.GetObjectKind().GroupVersionKind().Kind, object.GetName()
		if _, isPod := regarding.(*v1.Pod); isPod {
			w.Kind = "Pod" // objects of an informer do not say so
		}
	}
	if !ours(w.Kind, reason) {
		return
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.warnings = append(r.api.warnings, w)
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
