package simulated

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// byNode indexes pods by the node they are on.
const byNode = "simulated-node"

// PodReader lists and follows pods.
type PodReader interface {
	List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// PodInformer watches all pods that are bound, for Watch. It is not started. It keeps of
// a pod only what a simulation needs, so it must not be shared with others.
func PodInformer(client PodReader) (cache.SharedIndexInformer, error) {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = bound
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return client.Watch(ctx, o)
		},
	}, client), &v1.Pod{}, 0, cache.Indexers{})
	return informer, informer.SetTransform(func(obj any) (any, error) {
		if p, ok := obj.(*v1.Pod); ok {
			return trim(p), nil
		}
		return obj, nil
	})
}

// trim keeps what loadOf reads.
func trim(p *v1.Pod) *v1.Pod {
	small := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Spec:       v1.PodSpec{NodeName: p.Spec.NodeName},
		Status:     v1.PodStatus{Phase: p.Status.Phase},
	}
	for _, key := range []string{names.AnnotationDevices, names.AnnotationSimulatedUtilization} {
		if value, ok := p.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&small.ObjectMeta, key, value)
		}
	}
	for _, c := range p.Spec.InitContainers {
		small.Spec.InitContainers = append(small.Spec.InitContainers, v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy})
	}
	return small
}

// FaultInformer watches the metadata of all GPUNodes, for Watch. It is not started.
// Metadata alone, because telemetry changes all the time and says nothing of faults.
func FaultInformer(client metadata.Interface) cache.SharedIndexInformer {
	gpuNodes := client.Resource(v1alpha1.GPUNodes)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return gpuNodes.List(ctx, o)
		},
		WatchFuncWithContext: gpuNodes.Watch,
	}, client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

// Watch feeds a fleet from the API server until the context ends: what runs from pods
// with records, what is wrong from the annotation of GPUNodes. It starts the informers,
// one of each for all nodes, and fails only when they cannot be used. Annotations that
// are wrong are logged and ignored.
func Watch(ctx context.Context, pods, gpuNodes cache.SharedIndexInformer, hardware *Fleet) error {
	w := &watcher{fleet: hardware, pods: pods.GetIndexer(), log: klog.FromContext(ctx).WithName("simulated")}
	err := pods.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		if p, ok := obj.(*v1.Pod); ok && p.Spec.NodeName != "" {
			return []string{p.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	if _, err := pods.AddEventHandler(w.onPods()); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := gpuNodes.AddEventHandler(w.onGPUNodes()); err != nil {
		return fmt.Errorf("watch gpunodes: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() { pods.RunWithContext(ctx) })
	running.Go(func() { gpuNodes.RunWithContext(ctx) })
	running.Wait()
	return nil
}

type watcher struct {
	fleet *Fleet
	pods  cache.Indexer
	log   klog.Logger
}

func (w *watcher) onPods() cache.ResourceEventHandler {
	look := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if p, ok := obj.(*v1.Pod); ok && isLoad(p) {
			w.load(p.Spec.NodeName)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: look,
		UpdateFunc: func(before, after any) {
			a, okA := before.(*v1.Pod)
			b, okB := after.(*v1.Pod)
			if okA && okB && !(isLoad(a) == isLoad(b) && a.UID == b.UID && sameLoad(a, b)) {
				w.load(b.Spec.NodeName)
			}
		},
		DeleteFunc: look,
	}
}

// isLoad says whether the pod may do anything to devices.
func isLoad(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodRunning && p.Annotations[names.AnnotationDevices] != ""
}

// sameLoad says that a change of a pod, which is load before and after or neither,
// changes nothing on its devices.
func sameLoad(a, b *v1.Pod) bool {
	return !isLoad(a) || a.Spec.NodeName == b.Spec.NodeName &&
		a.Annotations[names.AnnotationDevices] == b.Annotations[names.AnnotationDevices] &&
		a.Annotations[names.AnnotationSimulatedUtilization] == b.Annotations[names.AnnotationSimulatedUtilization]
}

// load reads the pods of a node anew.
func (w *watcher) load(name string) {
	n := w.fleet.nodes[name]
	if n == nil {
		return
	}
	objects, err := w.pods.ByIndex(byNode, name)
	if err != nil {
		w.log.Error(err, "Pods of node cannot be listed", "node", name)
		return
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, obj := range objects {
		if p, ok := obj.(*v1.Pod); ok {
			pods = append(pods, p)
		}
	}
	uses, problems := n.loadOf(pods)
	for _, p := range problems {
		w.log.Info("Invalid annotation ignored", "node", name, "problem", p)
	}
	n.setLoad(uses)
}

func (w *watcher) onGPUNodes() cache.ResourceEventHandler {
	look := func(obj any) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			w.faults(m.Name, m.Annotations[names.AnnotationSimulatedFaults])
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: look,
		UpdateFunc: func(before, after any) {
			a, okA := before.(*metav1.PartialObjectMetadata)
			b, okB := after.(*metav1.PartialObjectMetadata)
			if okA && okB && a.Annotations[names.AnnotationSimulatedFaults] == b.Annotations[names.AnnotationSimulatedFaults] {
				return
			}
			look(after)
		},
		// The agent writes the GPUNode again; its faults went with the annotation.
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
				w.faults(m.Name, "")
			}
		},
	}
}

// faults sets the faults of an annotation. A wrong one changes nothing.
func (w *watcher) faults(name, text string) {
	if w.fleet.nodes[name] == nil {
		return
	}
	list, err := fleet.ParseFaults(text)
	if err == nil {
		err = w.fleet.SetFaults(name, list)
	}
	if err != nil {
		w.log.Error(err, "Invalid annotation ignored", "gpunode", name, "annotation", names.AnnotationSimulatedFaults)
		return
	}
	if len(list) > 0 {
		w.log.Info("Simulated faults", "gpunode", name, "faults", text)
	}
}
