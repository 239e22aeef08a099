package records

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
)

// Source is the pods of one node, as far as they are known here.
type Source interface {
	// List returns the pods bound to the node. They are not to be changed.
	List() []*v1.Pod
	// Get returns a pod of the node by name, or nil.
	Get(namespace, name string) *v1.Pod
	// Changed returns a channel that is closed when a pod changes after the call.
	Changed() <-chan struct{}
	// Synced says whether all pods of the node were read once.
	Synced() bool
}

// Pods follows the pods of one node, or of all for a process that stands for many.
type Pods struct {
	informer kubeapi.Informer[v1.Pod]
	changed  *signal
}

// NewPods prepares to follow pods: of one node, or of all nodes when node is empty. Run
// starts it.
func NewPods(client kubeapi.Reader[v1.PodList], node string) *Pods {
	p := &Pods{changed: newSignal()}
	o := kubeapi.InformerOptions[v1.Pod]{
		Node:    func(p *v1.Pod) string { return p.Spec.NodeName },
		Slim:    slim,
		Changed: func(*v1.Pod, bool) { p.changed.raise() },
	}
	if node != "" {
		o.Selector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	p.informer = kubeapi.NewInformer(client, o)
	return p
}

// slim drops what the agent never reads and what makes most of a pod's size.
func slim(p *v1.Pod) { p.ManagedFields, p.Spec.Volumes = nil, nil }

// Run follows the pods until the context ends.
func (p *Pods) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// On is the pods of one node.
func (p *Pods) On(node string) Source { return &nodePods{p, node} }

type nodePods struct {
	*Pods
	node string
}

func (n *nodePods) Synced() bool { return n.informer.HasSynced() }

func (n *nodePods) Changed() <-chan struct{} { return n.changed.wait() }

func (n *nodePods) List() []*v1.Pod { return n.informer.On(n.node) }

func (n *nodePods) Get(namespace, name string) *v1.Pod {
	if p := n.informer.Find(namespace, name); p != nil && p.Spec.NodeName == n.node {
		return p
	}
	return nil
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
func live(p *v1.Pod) bool { return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed }

// boundAt is when a pod was bound, as far as the API tells.
func boundAt(p *v1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}
