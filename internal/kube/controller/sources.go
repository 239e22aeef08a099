package controller

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// Indexes, and what they find.
const (
	byOwner  = "owner"  // pods by the UID of what controls them
	byGroup  = "group"  // pods by namespace/name of their PodGroup
	byQueue  = "queue"  // jobs and PodGroups by queue
	byParent = "parent" // queues by the queue above
	byTarget = "target" // commands by kind/namespace/name of whom they are for
)

// sources are the informers everything is read from.
type sources struct {
	pods, jobs, podGroups, queues, commands cache.SharedIndexInformer
}

func newSources(c *clients) (*sources, error) {
	s := &sources{
		pods: informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithTransform(slim)).Core().V1().Pods().Informer(),
		jobs: newInformer(c.jobs(""), &batch.Job{}, cache.Indexers{byQueue: index(func(j *batch.Job) string {
			return orDefault(j.Spec.Queue)
		})}),
		podGroups: newInformer(c.podGroups(""), &scheduling.PodGroup{}, cache.Indexers{byQueue: index(func(g *scheduling.PodGroup) string {
			return orDefault(g.Spec.Queue)
		})}),
		queues:   newInformer(c.queues(), &scheduling.Queue{}, cache.Indexers{byParent: index(parentOf)}),
		commands: newInformer(c.commands(""), &bus.Command{}, cache.Indexers{byTarget: index(commandTarget)}),
	}
	err := s.pods.AddIndexers(cache.Indexers{
		byOwner: index(func(p *v1.Pod) string {
			if owner := metav1.GetControllerOf(p); owner != nil {
				return string(owner.UID)
			}
			return ""
		}),
		byGroup: index(groupKey),
	})
	return s, err
}

// all lists the informers.
func (s *sources) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{s.pods, s.jobs, s.podGroups, s.queues, s.commands}
}

// start runs them until the context ends and waits until each has seen everything.
func (s *sources) start(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, i := range s.all() {
		go i.RunWithContext(ctx)
		synced = append(synced, i.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// slim drops what nobody here reads and every pod has.
func slim(obj any) (any, error) {
	if p, ok := obj.(*v1.Pod); ok {
		p.ManagedFields = nil
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

// object is what an event is about, also when the informer only knows that it is
// gone.
func object[T any](obj any) (T, bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o, ok := obj.(T)
	return o, ok
}

// on calls notice with every object that came, changed or went; before is nil unless
// it changed.
func on[T any](i cache.SharedIndexInformer, notice func(before *T, now T)) error {
	one := func(obj any) {
		if o, ok := object[T](obj); ok {
			notice(nil, o)
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: one, DeleteFunc: one,
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(T)
			now, ok2 := obj.(T)
			if ok1 && ok2 {
				notice(&before, now)
			}
		},
	})
	return err
}

// find returns all objects under a key of an index.
func find[T any](i cache.SharedIndexInformer, name, key string) []T {
	objs, err := i.GetIndexer().ByIndex(name, key)
	if err != nil {
		return nil // the index is made above
	}
	out := make([]T, 0, len(objs))
	for _, o := range objs {
		out = append(out, o.(T))
	}
	return out
}

// every returns all objects of a kind.
func every[T any](i cache.SharedIndexInformer) []T {
	objs := i.GetStore().List()
	out := make([]T, 0, len(objs))
	for _, o := range objs {
		out = append(out, o.(T))
	}
	return out
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

func orDefault(queue string) string {
	if queue == "" {
		return lifecycle.DefaultQueue
	}
	return queue
}
