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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
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
