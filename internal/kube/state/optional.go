package state

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

// optional watches objects on clusters that have them. It is not
// one of the scheduler's informers: those never sync when their CRD is missing, and
// the scheduler would not start.
type optional[T metav1.Object] struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	// absent: the API server does not serve them (now).
	absent atomic.Bool
}

// newOptional prepares to watch; its informer is still to be run. without says what
// is done when there are none. changed is called with the name of each object that
// came, changed or went; all when every node must be looked at again.
func newOptional[T metav1.Object](source cache.ListerWatcher, example runtime.Object, without string, changed func(string), all func()) (*optional[T], error) {
	w := &optional[T]{informer: cache.NewSharedIndexInformer(source, example, 0, nil)}
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
		if o, ok := object[T](obj); ok {
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

// get returns a node's object, or the zero T.
func (w *optional[T]) get(name string) (out T) {
	if w == nil || w.absent.Load() {
		return out
	}
	obj, ok, _ := w.informer.GetStore().GetByKey(name)
	if !ok {
		return out
	}
	return obj.(T)
}

func (w *optional[T]) synced() bool { return w.absent.Load() || w.handler.HasSynced() }
