package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// Indexes, and what they find.
const (
	byOwner  = "owner"  // pods by namespace and UID of what controls them
	byGroup  = "group"  // pods by namespace/name of their PodGroup
	byQueue  = "queue"  // jobs and PodGroups by queue
	byParent = "parent" // queues by the queue above
	byTarget = "target" // commands by kind/namespace/name of their target
)

// sources are the informers that all loops read from.
type sources struct {
	pods, nodes, priorities, jobs, podGroups, queues, commands cache.SharedIndexInformer
	// gpuNodes and kaiQueues are empty where the definition is not installed; see
	// startOptional. kaiQueues has Volcano's Queues that stand for them.
	gpuNodes, kaiQueues cache.SharedIndexInformer
}

func newSources(c *clients) (*sources, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithTransform(slim))
	core := factory.Core().V1()
	s := &sources{
		pods: core.Pods().Informer(), nodes: core.Nodes().Informer(), priorities: factory.Scheduling().V1().PriorityClasses().Informer(),
		jobs: newInformer(c.jobs(""), &batch.Job{}, cache.Indexers{
			byQueue: index(func(j *batch.Job) string { return dialect.QueueOrDefault(j.Spec.Queue) })}),
		podGroups: newInformer(c.podGroups(""), &scheduling.PodGroup{}, cache.Indexers{
			byQueue: index(func(g *scheduling.PodGroup) string { return dialect.QueueOrDefault(g.Spec.Queue) })}),
		queues:   newInformer(c.queues(""), &scheduling.Queue{}, cache.Indexers{byParent: index(parentOf)}),
		commands: newInformer(c.commands(""), &bus.Command{}, cache.Indexers{byTarget: index(commandTarget)}),
		gpuNodes: newInformer(c.gpuNodes(""), &v1alpha1.GPUNode{}, cache.Indexers{}),

		kaiQueues: newInformer(c.kaiQueues, &unstructured.Unstructured{}, cache.Indexers{byParent: index(parentOf)}),
	}
	if err := s.kaiQueues.SetTransform(kaiQueue); err != nil {
		return nil, err
	}
	err := s.pods.AddIndexers(cache.Indexers{
		byOwner: index(func(p *v1.Pod) string {
			if owner := metav1.GetControllerOf(p); owner != nil {
				return p.Namespace + "/" + string(owner.UID)
			}
			return ""
		}),
		byGroup: index(groupKey),
	})
	return s, err
}

// start runs those that are not optional until the context ends, and waits until they have
// synced.
func (s *sources) start(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, i := range []cache.SharedIndexInformer{s.pods, s.nodes, s.priorities, s.jobs, s.podGroups, s.queues, s.commands} {
		go i.RunWithContext(ctx)
		synced = append(synced, i.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// startOptional runs the informer of an optional kind once the API server serves it: one of
// a kind that is not served would log errors for ever.
func startOptional(ctx context.Context, c *clients, kind schema.GroupVersionResource, informer cache.SharedIndexInformer) {
	_ = wait.PollUntilContextCancel(ctx, 15*definitionsInterval, true, func(context.Context) (bool, error) {
		list, err := c.kube.Discovery().ServerResourcesForGroupVersion(kind.GroupVersion().String())
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource }), nil
	})
	if ctx.Err() == nil {
		informer.RunWithContext(ctx)
	}
}

// slim drops large fields of pods and nodes that are not read here.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1.Pod:
		o.ManagedFields = nil
	case *v1.Node:
		o.ManagedFields, o.Status.Images = nil, nil
	}
	return obj, nil
}

// index makes an index of a function that gives one key, or "" for none.
func index[T any](key func(T) string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if o, ok := obj.(T); ok {
			if k := key(o); k != "" {
				return []string{k}, nil
			}
		}
		return nil, nil
	}
}

// eventObject is the object of an event, also of a deletion that the informer missed.
func eventObject[T any](obj any) (T, bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o, ok := obj.(T)
	return o, ok
}

// on calls notice with every object that was added, updated or deleted; before is nil
// unless it was updated.
func on[T any](i cache.SharedIndexInformer, notice func(before, now *T)) error {
	one := func(obj any) {
		if o, ok := eventObject[*T](obj); ok {
			notice(nil, o)
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: one, DeleteFunc: one,
		UpdateFunc: func(old, obj any) { notice(old.(*T), obj.(*T)) },
	})
	return err
}

// find returns all objects under a key of an index.
func find[T any](i cache.SharedIndexInformer, name, key string) []T {
	objs, _ := i.GetIndexer().ByIndex(name, key) // the index is made above
	return of[T](objs)
}

func every[T any](i cache.SharedIndexInformer) []T { return of[T](i.GetStore().List()) }

func of[T any](objs []any) []T {
	out := make([]T, 0, len(objs))
	for _, o := range objs {
		out = append(out, o.(T))
	}
	return out
}

// podsOf are the pods that a job controls, as the informer has them.
func (s *sources) podsOf(job *batch.Job) (out []lifecycle.Pod) {
	for _, p := range find[*v1.Pod](s.pods, byOwner, ownedBy(job)) {
		out = append(out, lifecycle.PodOf(p))
	}
	return out
}

// command is the oldest command for a target, of equally old ones the first by name; or nil.
func (s *sources) command(target string) *bus.Command {
	commands := find[*bus.Command](s.commands, byTarget, target)
	if len(commands) == 0 {
		return nil
	}
	return slices.MinFunc(commands, func(a, b *bus.Command) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// unlessGone drops the error that the object of a call does not exist.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// get returns one object, or the zero value.
func get[T any](i cache.SharedIndexInformer, key string) (out T, ok bool) {
	obj, ok, err := i.GetStore().GetByKey(key)
	if err != nil || !ok {
		return out, false
	}
	return obj.(T), true
}

// keyOf is namespace/name, or the name of a cluster's object.
func keyOf(o metav1.Object) string { return cache.MetaObjectToName(o).String() }

// ownedBy is the key of byOwner. The namespace is part of it: a pod of another namespace may
// name the UID of a job that is not its own.
func ownedBy(job *batch.Job) string { return job.Namespace + "/" + string(job.UID) }

// jobKey is the key of the Volcano Job that controls an object, or "".
func jobKey(o metav1.Object) string {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batch.SchemeGroupVersion.String() {
		return ""
	}
	return o.GetNamespace() + "/" + owner.Name
}

// groupKey is the key of the PodGroup a pod belongs to, or "".
func groupKey(p *v1.Pod) string {
	for _, key := range []string{scheduling.KubeGroupNameAnnotationKey, scheduling.VolcanoGroupNameAnnotationKey} {
		if name := p.Annotations[key]; name != "" {
			return p.Namespace + "/" + name
		}
	}
	return ""
}

func commandTarget(c *bus.Command) string {
	switch t := c.TargetObject; {
	case t == nil:
		return ""
	case t.Kind == "Queue":
		return "Queue/" + t.Name
	default:
		return t.Kind + "/" + c.Namespace + "/" + t.Name
	}
}
