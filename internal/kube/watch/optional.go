package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Optional watches objects on clusters that have them. It is no informer of the scheduler:
// those never sync when their CRD is missing. A nil Optional watches nothing.
type Optional[T metav1.Object] struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	absent   atomic.Bool // the API server does not serve them (now)
	// again asks whether they are served by now; all is told when that changes.
	again   chan struct{}
	all     func()
	without string // logged when they are not served
}

// New prepares to watch. without is logged when the API server serves no such objects.
// changed is called with an object's key, all when they begin or cease to be served.
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

// LookAgain asks soon whether such objects are served by now: one is said to exist.
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

// servesNone says whether an error means that such objects are not served, or not to us.
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

// Pauses before it is asked again whether objects are served; askedPause: after a sign.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	askedPause = 200 * time.Millisecond
)

// insistent lists until objects are served: a CRD that is installed later is noticed.
type insistent[T metav1.Object] struct {
	cache.ListerWatcherWithContext
	of *Optional[T]
}

func (s insistent[T]) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s insistent[T]) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s insistent[T]) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		list, err := s.ListerWatcherWithContext.ListWithContext(ctx, o)
		switch {
		case err == nil:
			if s.of.absent.Swap(false) {
				s.of.all()
			}
			return list, nil
		case !s.of.refused(ctx, err):
			return nil, err
		}
		asked := time.Now()
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
			continue
		case <-s.of.again:
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(askedPause - time.Since(asked)):
		}
	}
}

// Fixed is an Optional of given objects, for a copy of a scheduler's state. It is not run.
func Fixed[T metav1.Object](example runtime.Object, objects []T) (*Optional[T], error) {
	w := &Optional[T]{again: make(chan struct{}, 1), all: func() {}, handler: listed{}}
	w.informer = cache.NewSharedIndexInformer(nowhere{}, example, 0, nil)
	for _, o := range objects {
		if err := w.Put(o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Put adds an object to a Fixed one, or replaces it.
func (w *Optional[T]) Put(o T) error { return w.informer.GetStore().Add(o) }

// listed is a registration that has seen everything.
type listed struct {
	cache.ResourceEventHandlerRegistration
}

func (listed) HasSynced() bool { return true }

type nowhere struct{}

var errNowhere = errors.New("a copy of the state watches nothing")

func (nowhere) List(metav1.ListOptions) (runtime.Object, error) { return nil, errNowhere }

func (nowhere) Watch(metav1.ListOptions) (apiwatch.Interface, error) { return nil, errNowhere }
