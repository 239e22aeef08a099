package plugin

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// Shared is what all plugins of all profiles of one scheduler share: one ledger.
// The framework builds plugins in random order, so whichever comes first makes
// it.
type Shared struct {
	mu       sync.Mutex
	cluster  *state.Cluster
	profiles map[string]*profile
	// sources is where GPUNodes and the like come from; none: the scheduler's API
	// server.
	sources state.Sources
	events  *yielding
	// standsBack writes pods' conditions, which may wait for bindings; nil where Setup
	// did not make it.
	standsBack kubernetes.Interface
	// handle is any profile's: all lead to the same queue and API server.
	handle fwk.Handle
	synced sync.Once
	// complete: the ledger has seen what existed at the start.
	complete atomic.Bool
	// levels is the profile that set the levels of domains; "" when none has.
	levels string
	// defaults is the configuration without a file.
	defaults []byte
}

// awaitSync blocks until the ledger has seen what existed at the start. Only pods
// that ask for GPUs need to wait for it.
func (s *Shared) awaitSync(ctx context.Context) {
	s.synced.Do(func() {
		logger := klog.FromContext(ctx)
		logger.Info("Waiting for the ledger to see all nodes, pods and GPUNodes")
		if s.cluster.WaitForSync(ctx) {
			s.complete.Store(true)
			logger.Info("The ledger is complete")
		}
	})
}

// profile is what one scheduler profile's arguments say.
type profile struct {
	cluster *state.Cluster
	// filters: the profile uses GPUFilter, so its pods are ours to place.
	filters bool
	models  []model.GPUModel
	weights score.Weights
	// placements are for pods that do not say how they want to be placed.
	placements state.Placements
	// priority: the profile scores by GPUPriority, whose opinion the shortcut would
	// pass over.
	priority bool
}

// NewShared returns the state for one scheduler. No source of GPUNodes means the
// objects of the scheduler's own API server.
func NewShared(from state.Sources) *Shared {
	return &Shared{profiles: map[string]*profile{}, sources: from, events: newYielding()}
}

// Cluster is the shared state; nil until the first plugin is built.
func (s *Shared) Cluster() *state.Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster
}

// Registry lists the plugins for a scheduler.
func (s *Shared) Registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{
		names.PluginFilter:   s.newFilter,
		names.PluginScore:    s.newScore,
		names.PluginReserve:  s.newReserve,
		names.PluginQueue:    s.newQueue,
		names.PluginGang:     s.newGang,
		names.PluginBind:     s.newBind,
		names.PluginPriority: s.newPriority,
	}
}

// join returns the shared cluster and the handle's profile, making them if
// needed.
func (s *Shared) join(ctx context.Context, h fwk.Handle) (*state.Cluster, *profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		if s.sources.GPUNodes == nil {
			var err error
			if s.sources, err = state.APISources(h.KubeConfig()); err != nil {
				return nil, nil, err
			}
		}
		wake := func(c *state.Cluster, id model.NodeID) { activateWaiting(ctx, h, c.Waiting(id)) }
		c, err := state.New(ctx, h.SharedInformerFactory(), s.sources, reporter(ctx, h), wake)
		if err != nil {
			return nil, nil, err
		}
		s.cluster = c
	}
	s.handle = h
	p := s.profile(h.ProfileName())
	p.cluster = s.cluster
	return s.cluster, p, nil
}

// profile returns what is known of a profile, making it if needed. The caller holds
// the lock.
func (s *Shared) profile(name string) *profile {
	p := s.profiles[name]
	if p == nil {
		p = &profile{weights: score.DefaultWeights()}
		s.profiles[name] = p
	}
	return p
}

// reporter turns complaints about objects into events on them.
func reporter(ctx context.Context, h fwk.Handle) state.Reporter {
	logger := klog.FromContext(ctx)
	return func(object *v1.ObjectReference, reason, message string) {
		logger.Info("Ignored what makes no sense", "kind", object.Kind, "object", klog.KRef(object.Namespace, object.Name), "reason", reason, "problem", message)
		h.EventRecorder().Eventf(object, nil, v1.EventTypeWarning, reason, "Reading", "%s", message)
	}
}

// activateWaiting sends pods back to the queue. kube-scheduler's own events cover
// pods and nodes; this covers GPUNodes.
func activateWaiting(ctx context.Context, h fwk.Handle, waiting []*v1.Pod) {
	pods := map[string]*v1.Pod{}
	for _, p := range waiting {
		pods[p.Namespace+"/"+p.Name] = p
	}
	if len(pods) > 0 {
		h.Activate(klog.FromContext(ctx), pods)
	}
}

// enlist decodes a plugin's arguments and joins its profile.
func enlist[A any](ctx context.Context, s *Shared, h fwk.Handle, obj runtime.Object) (*state.Cluster, *profile, *A, error) {
	args := new(A)
	if err := decodeArgs(obj, args); err != nil {
		return nil, nil, nil, err
	}
	c, p, err := s.join(ctx, h)
	return c, p, args, err
}
