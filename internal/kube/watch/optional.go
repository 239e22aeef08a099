package watch

import (
	"context"
	"errors"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Optional watches objects on clusters that have them. It is not one of the scheduler's
// informers: those never sync when their CRD is missing, and the scheduler would not
// start. A nil Optional watches nothing.
type Optional[T metav1.Object] struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	absent   atomic.Bool // the API server does not serve them (now)
	// again asks whether they are served by now; all is told when that changes.
	again   chan struct{}
	all     func()
	without string // logged when they are not served
}

// New prepares to watch; Run starts it. without is logged when the API server serves no
// such objects. changed is called with the key of each object that came, changed or
// went; all when the API server begins or ceases to serve them.
func New[T metav1.Object](source cache.ListerWatcher, example runtime.Object, without string, changed func(string), all func()) (*Optional[T], error) {
	w := &Optional[T]{again: make(chan struct{}, 1), all: all, without: without}
	w.informer = cache.NewSharedIndexInformer(insistent[T]{cache.ToListerWatcherWithContext(source), w}, example, 0, nil)
	if err := w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !w.refused(ctx, err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	}); err != nil {
		return nil, err
	}
	var err error
	w.handler, err = w.informer.AddEventHandler(Handler(func(o T) {
		if w.absent.Swap(false) {
			all()
		}
		changed(keyOf(o))
	}, nil))
	return w, err
}

// refused says whether an error means that there are no such objects, and takes note of it.
func (w *Optional[T]) refused(ctx context.Context, err error) bool {
	// Being refused once we have seen them is a passing fault: what is known stays.
	if !servesNone(err) || apierrors.IsForbidden(err) && w.handler != nil && w.handler.HasSynced() {
		return false
	}
	if !w.absent.Swap(true) {
		klog.FromContext(ctx).Info(w.without, "cause", err.Error())
		w.all()
	}
	return true
}

// LookAgain asks the API server soon whether it serves them by now: somebody has seen that
// such an object exists. It does not wait.
func (w *Optional[T]) LookAgain() {
	if w == nil {
		return
	}
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// keyOf is an object's key in its store.
func keyOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// servesNone says whether an error means that there are no such objects to be had:
// no such resource, or not for us.
func servesNone(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err))
}

// Get returns the object with a key, or the zero T.
func (w *Optional[T]) Get(name string) (out T) {
	if w == nil || w.absent.Load() {
		return out
	}
	obj, ok, _ := w.informer.GetStore().GetByKey(name)
	if !ok {
		return out
	}
	return obj.(T)
}

// All returns all objects, in no order.
func (w *Optional[T]) All() (out []T) {
	if w == nil || w.absent.Load() {
		return nil
	}
	for _, obj := range w.informer.GetStore().List() {
		out = append(out, obj.(T))
	}
	return out
}

// Absent says whether the API server serves no such objects, as far as is known.
func (w *Optional[T]) Absent() bool { return w == nil || w.absent.Load() }

// Listed says whether all objects that existed at the start have been seen.
func (w *Optional[T]) Listed() bool { return w != nil && w.handler.HasSynced() }

// Synced says whether there is nothing to wait for.
func (w *Optional[T]) Synced() bool { return w.Absent() || w.Listed() }

// Run watches until the context ends.
func (w *Optional[T]) Run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// Handler handles events of an informer: objects that come or go, also ones whose deletion
// was missed, and updates; nil: an update is handled like an object that comes.
func Handler[T any](some func(T), update func(o, n T)) cache.ResourceEventHandler {
	if update == nil {
		update = func(_, n T) { some(n) }
	}
	one := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if t, ok := obj.(T); ok {
			some(t)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: one, DeleteFunc: one, UpdateFunc: func(o, n any) { update(o.(T), n.(T)) }}
}
