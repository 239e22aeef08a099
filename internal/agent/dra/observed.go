package dra

import (
	"context"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
)

// API is where slices are written.
type API interface {
	kubeapi.Reader[resourceapi.ResourceSliceList]
	Create(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error)
	Update(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error)
	Delete(ctx context.Context, name string) error
}

// Observed follows the driver's slices: of one node, or of all for a process that stands
// for many. Kubelet deletes the slices of its node when it starts, so a publisher must see
// what becomes of them.
type Observed struct {
	api      API
	informer kubeapi.Informer[resourceapi.ResourceSlice]

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

// unseen is how long a write counts that does not come back: the slice was deleted
// while the watch was away.
const unseen = 30 * time.Second

// NewObserved prepares; Run starts it.
func NewObserved(api API, node string) *Observed {
	o := &Observed{api: api, nodes: map[string]chan struct{}{}, written: map[string]written{}}
	selector := fields.Set{resourceapi.ResourceSliceSelectorDriver: Driver}
	if node != "" {
		selector[resourceapi.ResourceSliceSelectorNodeName] = node
	}
	o.informer = kubeapi.NewInformer(api, kubeapi.InformerOptions[resourceapi.ResourceSlice]{
		Selector: selector.String(), Node: nodeOf, Slim: func(s *resourceapi.ResourceSlice) { s.ManagedFields = nil }, Changed: o.seen,
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
func (o *Observed) seen(s *resourceapi.ResourceSlice, deleted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w, ok := o.written[s.Name]; ok && (w.slice == nil && deleted || w.slice != nil && !kubeapi.Older(s, w.slice)) {
		delete(o.written, s.Name)
	}
	o.wake(nodeOf(s))
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
	for _, s := range o.informer.On(node) {
		out[s.Name] = s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, w := range o.written {
		switch {
		case time.Since(w.at) > unseen:
			delete(o.written, name)
		case w.slice == nil:
			delete(out, name)
		case nodeOf(w.slice) == node && (out[name] == nil || kubeapi.Older(out[name], w.slice)):
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
