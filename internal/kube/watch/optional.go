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
	// absent: the API server does not serve them (now).
	absent atomic.Bool
}

// New prepares to watch; Run starts it. without is logged when the API server serves no
// such objects. changed is called with the key of each object that came, changed or
// went; all when the API server begins or ceases to serve them.
func New[T metav1.Object](source cache.ListerWatcher, example runtime.Object, without string, changed func(string), all func()) (*Optional[T], error) {
	w := &Optional[T]{informer: cache.NewSharedIndexInformer(source, example, 0, nil)}
	err := w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		// Being refused once we have seen them is a passing fault: what is known stays.
		if !servesNone(err) || apierrors.IsForbidden(err) && w.handler != nil && w.handler.HasSynced() {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		// The reflector retries with growing pauses, so a CRD installed later is
		// noticed.
		if !w.absent.Swap(true) {
			klog.FromContext(ctx).Info(without, "cause", err.Error())
			all()
		}
	})
	if err != nil {
		return nil, err
	}
	notice := func(obj any) {
		if w.absent.Swap(false) {
			all()
		}
		if o, ok := Object[T](obj); ok {
			changed(keyOf(o))
		}
	}
	w.handler, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notice, UpdateFunc: func(_, obj any) { notice(obj) }, DeleteFunc: notice,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
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

// Object unwraps an informer's object, also one whose deletion was missed.
func Object[T any](obj any) (T, bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	t, ok := obj.(T)
	return t, ok
}
