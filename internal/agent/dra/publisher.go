package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
)

// PublisherOptions are what a Publisher works with.
type PublisherOptions struct {
	// Node is the node's name, and the pool's.
	Node     string
	Observed *Observed
	// UID is the node's, so that the slices go with it.
	UID func(ctx context.Context) (string, error)
}

// Publisher keeps the slices of one node equal to what the node has. The newest state is
// all that is kept: while the API server is away nothing piles up.
type Publisher struct {
	o   PublisherOptions
	log klog.Logger

	mu     sync.Mutex
	wanted []Slice // nil before the first Set
	set    chan struct{}

	generation int64 // the pool's highest so far; the publisher's own
	// taken is how the API server kept what was sent, by slice: it drops fields of
	// features that are off. The publisher's own.
	taken map[string]taken
}

type taken struct{ sent, kept resourceapi.ResourceSliceSpec }

// NewPublisher prepares; Run starts it.
func NewPublisher(o PublisherOptions) *Publisher {
	return &Publisher{o: o, log: klog.Background().WithValues("node", o.Node), set: make(chan struct{}, 1), taken: map[string]taken{}}
}

// Set says what the pool is to have. Nothing is published before the first call.
func (p *Publisher) Set(wanted []Slice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted != nil && apiequality.Semantic.DeepEqual(p.wanted, wanted) {
		return
	}
	p.wanted = wanted
	select {
	case p.set <- struct{}{}:
	default:
	}
}

// Bounds of the pause after a write that failed.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Run publishes until the context ends. What it has published stays: kubelet takes it away
// when the driver stays away.
func (p *Publisher) Run(ctx context.Context) {
	changed := p.o.Observed.changed(p.o.Node)
	if !cache.WaitForCacheSync(ctx.Done(), p.o.Observed.informer.HasSynced) {
		return
	}
	var pause time.Duration
	for {
		var again <-chan time.Time
		switch err := p.sync(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == 0 {
				p.log.Error(err, "Could not write ResourceSlices; will retry")
			}
			pause = min(max(2*pause, retryFirst), retryMost)
			again = time.After(pause)
		default:
			if pause > 0 {
				p.log.Info("ResourceSlices are written again")
			}
			pause = 0
			again = time.After(unseen) // a write of ours may have been undone unseen
		}
		select {
		case <-ctx.Done():
			return
		case <-p.set:
		case <-changed:
		case <-again:
		}
	}
}

// sync brings the slices in line. The pool's generation stays where one slice changes, and
// grows where several do: readers then wait until all slices have it.
func (p *Publisher) sync(ctx context.Context) error {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	if wanted == nil {
		return nil
	}
	have := p.o.Observed.of(p.o.Node)
	pool := resourceapi.ResourcePool{Name: p.o.Node, Generation: max(p.generation, 1), ResourceSliceCount: int64(len(wanted))}
	for _, s := range have {
		pool.Generation = max(pool.Generation, s.Spec.Pool.Generation)
	}
	obsolete := maps.Clone(have)
	missing, changed := 0, 0
	for _, w := range wanted {
		name := objectName(p.o.Node, w)
		delete(obsolete, name)
		if have[name] == nil {
			missing++
		} else if !p.equal(have[name], w.spec(p.o.Node, pool)) {
			changed++
		}
	}
	if missing == 0 && len(obsolete) == 0 && changed == 0 {
		return nil
	}
	if (len(have) > 0 || p.generation > 0) && (missing > 0 || len(obsolete) > 0 || changed > 1) {
		pool.Generation++
	}
	p.generation = pool.Generation
	var errs []error
	// First what is no more: better too few devices than some that do not exist.
	for _, s := range slices.SortedFunc(maps.Values(obsolete), byName) {
		errs = append(errs, p.remove(ctx, s.Name))
	}
	var owner []metav1.OwnerReference
	if missing > 0 {
		uid, err := p.o.UID(ctx)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("node %s: %w", p.o.Node, err))...)
		}
		yes := true
		owner = []metav1.OwnerReference{{APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: p.o.Node, UID: types.UID(uid), Controller: &yes}}
	}
	for _, w := range wanted {
		name, spec := objectName(p.o.Node, w), w.spec(p.o.Node, pool)
		old := have[name]
		if old != nil && p.equal(old, spec) {
			continue
		}
		if err := p.write(ctx, name, old, owner, spec); err != nil {
			return errors.Join(append(errs, err)...) // the next one would fail alike
		}
	}
	return errors.Join(errs...)
}

// equal says whether a slice is what was wanted, or what the API server makes of it.
func (p *Publisher) equal(have *resourceapi.ResourceSlice, want resourceapi.ResourceSliceSpec) bool {
	if t, ok := p.taken[have.Name]; ok && apiequality.Semantic.DeepEqual(t.sent, want) {
		want = t.kept
	}
	return apiequality.Semantic.DeepEqual(have.Spec, want)
}

func (p *Publisher) write(ctx context.Context, name string, old *resourceapi.ResourceSlice, owner []metav1.OwnerReference, spec resourceapi.ResourceSliceSpec) error {
	var kept *resourceapi.ResourceSlice
	var err error
	if old == nil {
		kept, err = p.o.Observed.api.Create(ctx, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner}, Spec: spec})
	} else {
		next := old.DeepCopy()
		next.Spec = spec
		kept, err = p.o.Observed.api.Update(ctx, next)
	}
	if err != nil {
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			p.o.Observed.forget(name) // the watch will tell
		}
		return fmt.Errorf("ResourceSlice %s: %w", name, err)
	}
	p.o.Observed.wrote(name, kept)
	delete(p.taken, name)
	if !apiequality.Semantic.DeepEqual(kept.Spec, spec) {
		p.log.Info("The API server dropped fields of a ResourceSlice: feature gates of DRA are off there", "slice", name)
		p.taken[name] = taken{spec, kept.Spec}
	}
	return nil
}

func (p *Publisher) remove(ctx context.Context, name string) error {
	if err := p.o.Observed.api.Delete(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ResourceSlice %s: %w", name, err)
	}
	p.o.Observed.wrote(name, nil)
	return nil
}

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
