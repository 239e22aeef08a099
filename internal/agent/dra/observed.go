package dra

import (
	"context"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// API is where slices are written.
type API interface {
	List(ctx context.Context, o metav1.ListOptions) (*resourceapi.ResourceSliceList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error)
	Update(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error)
	Delete(ctx context.Context, name string) error
}

// Observed follows the driver's slices: of one node, or of all for a process that stands
// for many. Kubelet deletes the slices of its node when it starts, so a publisher must see
// what becomes of them.
type Observed struct {
	api      API
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	nodes   map[string]chan struct{} // what each node's publisher waits for
	written map[string]written       // by slice
}

// written is a slice as this process wrote it, until the API server sends it back; a nil
// slice is one that was deleted.
type written struct {
	slice *resourceapi.ResourceSlice
	at    time.Time
}

// unseen is how long a write counts that does not come back: somebody deleted the slice
// while the watch was away.
const unseen = 30 * time.Second

const byNode = "node"

// NewObserved prepares; Run starts it.
func NewObserved(api API, node string) *Observed {
	o := &Observed{api: api, nodes: map[string]chan struct{}{}, written: map[string]written{}}
	selector := fields.Set{resourceapi.ResourceSliceSelectorDriver: Driver}
	if node != "" {
		selector[resourceapi.ResourceSliceSelectorNodeName] = node
	}
	tweak := func(l *metav1.ListOptions) { l.FieldSelector = selector.String() }
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			tweak(&l)
			return api.List(ctx, l)
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			tweak(&l)
			return api.Watch(ctx, l)
		},
	}
	o.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, api), &resourceapi.ResourceSlice{}, 0, cache.Indexers{
		byNode: func(obj any) ([]string, error) {
			if s, ok := obj.(*resourceapi.ResourceSlice); ok {
				return []string{nodeOf(s)}, nil
			}
			return nil, nil
		},
	})
	_ = o.informer.SetTransform(func(obj any) (any, error) { // fails only after the start
		if s, ok := obj.(*resourceapi.ResourceSlice); ok {
			s.ManagedFields = nil
		}
		return obj, nil
	})
	_, _ = o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { o.seen(obj, false) }, UpdateFunc: func(_, obj any) { o.seen(obj, false) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			o.seen(obj, true)
		},
	})
	return o
}

func nodeOf(s *resourceapi.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// Run follows until the context ends.
func (o *Observed) Run(ctx context.Context) { o.informer.RunWithContext(ctx) }

// seen hears of every event: what the API server sends counts from then on, unless it is
// older than what was written.
func (o *Observed) seen(obj any, deleted bool) {
	s, ok := obj.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w, ok := o.written[s.Name]; ok && (w.slice == nil && deleted || w.slice != nil && !older(s, w.slice)) {
		delete(o.written, s.Name)
	}
	o.wake(nodeOf(s))
}

// older compares resource versions, which are numbers that grow.
func older(a, b *resourceapi.ResourceSlice) bool {
	x, y := a.ResourceVersion, b.ResourceVersion
	return len(x) < len(y) || len(x) == len(y) && x < y
}

// wake needs the lock.
func (o *Observed) wake(node string) {
	if c := o.nodes[node]; c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// changed gets a message when slices of a node change.
func (o *Observed) changed(node string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nodes[node] == nil {
		o.nodes[node] = make(chan struct{}, 1)
	}
	return o.nodes[node]
}

// of are a node's slices by name, with what was written and has not come back.
func (o *Observed) of(node string) map[string]*resourceapi.ResourceSlice {
	out := map[string]*resourceapi.ResourceSlice{}
	objs, _ := o.informer.GetIndexer().ByIndex(byNode, node) // the index exists
	for _, obj := range objs {
		if s, ok := obj.(*resourceapi.ResourceSlice); ok {
			out[s.Name] = s
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, w := range o.written {
		switch {
		case time.Since(w.at) > unseen:
			delete(o.written, name)
		case w.slice == nil:
			delete(out, name)
		case nodeOf(w.slice) == node && (out[name] == nil || older(out[name], w.slice)):
			out[name] = w.slice
		}
	}
	return out
}

// wrote notes a write; nil for a deletion.
func (o *Observed) wrote(name string, s *resourceapi.ResourceSlice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written[name] = written{s, time.Now()}
}

// forget drops a write: the API server knows better.
func (o *Observed) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, name)
}
