package records

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is the pods of one node, as far as they are known here.
type Source interface {
	// List returns the pods bound to the node. They are not to be changed.
	List() []*v1.Pod
	// Get returns a pod of the node by name, or nil.
	Get(namespace, name string) *v1.Pod
	// Await waits until a pod of the node is known, or the context ends; then it
	// returns nil. Kubelet may hear of a pod before the agent does.
	Await(ctx context.Context, namespace, name string) *v1.Pod
	// Synced says whether all pods of the node were read once.
	Synced() bool
}

// Pods follows the pods of one node, or of all for a process that stands for many.
type Pods struct {
	informer cache.SharedIndexInformer
	changed  *signal
}

const byNode = "node"

// PodReader lists and follows pods.
type PodReader interface {
	List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// NewPods prepares to follow pods: of one node, or of all nodes when node is empty. Run
// starts it.
func NewPods(client PodReader, node string) *Pods {
	tweak := func(o *metav1.ListOptions) {
		if node != "" {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return client.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), &v1.Pod{}, 0, cache.Indexers{
		byNode: func(obj any) ([]string, error) {
			if p, ok := obj.(*v1.Pod); ok && p.Spec.NodeName != "" {
				return []string{p.Spec.NodeName}, nil
			}
			return nil, nil
		},
	})
	_ = informer.SetTransform(slim) // fails only after the start
	p := &Pods{informer: informer, changed: newSignal()}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.changed.raise() },
		UpdateFunc: func(any, any) { p.changed.raise() },
		DeleteFunc: func(any) { p.changed.raise() },
	})
	return p
}

// slim drops what the agent never reads and what makes most of a pod's size.
func slim(obj any) (any, error) {
	if p, ok := obj.(*v1.Pod); ok {
		p.ManagedFields = nil
		p.Spec.Volumes = nil
	}
	return obj, nil
}

// Run follows the pods until the context ends.
func (p *Pods) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced says whether all pods were read once.
func (p *Pods) Synced() bool { return p.informer.HasSynced() }

// WaitSynced waits for that; false when the context ended before.
func (p *Pods) WaitSynced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced)
}

// Changed returns a channel that is closed when any pod changes after the call.
func (p *Pods) Changed() <-chan struct{} { return p.changed.wait() }

// On is the pods of one node.
func (p *Pods) On(node string) Source { return &nodePods{p, node} }

type nodePods struct {
	all  *Pods
	node string
}

func (n *nodePods) Synced() bool { return n.all.Synced() }

func (n *nodePods) List() []*v1.Pod {
	objs, err := n.all.informer.GetIndexer().ByIndex(byNode, n.node)
	if err != nil {
		return nil
	}
	out := make([]*v1.Pod, 0, len(objs))
	for _, o := range objs {
		if p, ok := o.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

func (n *nodePods) Get(namespace, name string) *v1.Pod {
	o, ok, err := n.all.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName == n.node {
		return p
	}
	return nil
}

func (n *nodePods) Await(ctx context.Context, namespace, name string) *v1.Pod {
	for {
		changed := n.all.changed.wait()
		if p := n.Get(namespace, name); p != nil {
			return p
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// signal tells any number of goroutines that something happened since they asked.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// wait returns a channel that the next raise closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// live says whether a pod may hold devices: it is not over.
func live(p *v1.Pod) bool {
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}

// boundAt is when a pod was bound, as far as the API tells.
func boundAt(p *v1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}
