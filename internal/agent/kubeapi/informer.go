package kubeapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Reader lists and follows objects.
type Reader[L any] interface {
	List(ctx context.Context, o metav1.ListOptions) (*L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// InformerOptions say what an Informer follows.
type InformerOptions[T any] struct {
	// Selector chooses objects by their fields; empty for all.
	Selector string
	// Node is the node that an object belongs to.
	Node func(*T) string
	// Slim drops what is never read, before an object is kept.
	Slim func(*T)
	// Changed hears of each object that was added, changed or deleted.
	Changed func(object *T, deleted bool)
}

// Informer keeps objects as the API server has them, by node.
type Informer[T any] struct{ cache.SharedIndexInformer }

const byNode = "node"

// NewInformer prepares; RunWithContext starts it.
func NewInformer[T, L any](from Reader[L], o InformerOptions[T]) Informer[T] {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			l.FieldSelector = o.Selector
			list, err := from.List(ctx, l)
			if err != nil {
				return nil, err
			}
			return any(list).(runtime.Object), nil
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			l.FieldSelector = o.Selector
			return from.Watch(ctx, l)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, from), any(new(T)).(runtime.Object), 0, cache.Indexers{
		byNode: func(object any) ([]string, error) { return []string{o.Node(object.(*T))}, nil },
	})
	_ = informer.SetTransform(func(object any) (any, error) { // fails only after the start
		if x, ok := object.(*T); ok {
			o.Slim(x)
		}
		return object, nil
	})
	changed := func(object any, deleted bool) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if x, ok := object.(*T); ok {
			o.Changed(x, deleted)
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only after the end
		AddFunc:    func(object any) { changed(object, false) },
		UpdateFunc: func(_, object any) { changed(object, false) },
		DeleteFunc: func(object any) { changed(object, true) },
	})
	return Informer[T]{informer}
}

// On are the objects of a node. They are not to be changed.
func (i Informer[T]) On(node string) []*T {
	objects, _ := i.GetIndexer().ByIndex(byNode, node) // the index exists
	out := make([]*T, 0, len(objects))
	for _, object := range objects {
		out = append(out, object.(*T))
	}
	return out
}

// Find is an object by namespace and name; nil when there is none.
func (i Informer[T]) Find(namespace, name string) *T {
	object, ok, err := i.GetIndexer().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !ok {
		return nil
	}
	return object.(*T)
}

// Older says whether an object is an older version of another: the API server's numbers grow.
func Older(object, than metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order < 0
}
