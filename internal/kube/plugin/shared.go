package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Shared is what all plugins of all profiles of one scheduler share: one ledger.
// The framework builds plugins in random order, so whichever comes first makes
// it.
type Shared struct {
	mu       sync.Mutex
	engine   *kubeengine.Engine
	answers  *answer.Answers
	profiles map[string]*profile
	// recording: what the engine is told and decides is written down.
	recording bool
	sources   watch.Sources // where GPUNodes and the like come from; none: the scheduler's API server
	events    *yielding
	fence     *fence
	fenced    kubernetes.Interface // fenced writes what only a leader may; nil where Setup did not make it
	// standsBack writes pods' conditions, which wait for bindings; nil: Setup was not called.
	standsBack kubernetes.Interface
	// handle is any profile's: all lead to the same queue and API server. recorders are
	// the profiles' own, so that events say which scheduler they come from.
	handle    fwk.Handle
	recorders recorders
	synced    sync.Once
	levels    string // the profile that set the levels of domains; "" when none has
	// maxAge is how old telemetry may be, and the profile that says so.
	maxAge struct {
		profile string
		age     time.Duration
	}
	prices   *prices // the price table that is followed; nil: none
	defaults []byte  // the configuration without a file
	tuning   tuning  // what the arguments say about times and counts
	// audit is the audit log, stateArgs and keeping are about what was learned.
	audit        auditor
	stateArgs    StateArgs
	keeping      *keeping
	autoscales   atomic.Bool  // what autoscalers read is written; known when all plugins are built
	placeholders placeholders // placeholders stand for gangs that lack nodes
}

// awaitSync blocks until the ledger has seen what existed at the start. Only pods
// that ask for GPUs need to wait for it.
func (s *Shared) awaitSync(ctx context.Context) {
	s.synced.Do(func() {
		logger := klog.FromContext(ctx)
		logger.Info("Waiting for the ledger to see all nodes, pods and GPUNodes")
		if s.engine.WaitForSync(ctx) {
			logger.Info("The ledger is complete")
		}
	})
}

// profile is what one scheduler profile's arguments say.
type profile struct {
	filters    bool // the profile uses GPUFilter, so its pods are placed by the engine
	models     []model.GPUModel
	weights    score.Weights
	placements workload.Placements // for pods that do not say how they want to be placed
	tenants    *dialect.Tenants    // the standing of tenants; nil: the default
	priority   bool                // the profile scores by GPUPriority, which the shortcut would pass over
}

// NewShared returns the state for one scheduler. No source of GPUNodes means the
// objects of the scheduler's own API server.
func NewShared(from watch.Sources) *Shared {
	s := &Shared{profiles: map[string]*profile{}, sources: from, events: newYielding(), fence: &fence{}}
	s.tuning, _ = (&QueueArgs{}).tuning() // defaults are valid, as a test says
	return s
}

// Engine is the shared state; nil until the first plugin is built.
func (s *Shared) Engine() *kubeengine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// writer is the client for what only a leader may write.
func (s *Shared) writer(h fwk.Handle) kubernetes.Interface {
	if s.fenced != nil {
		return s.fenced
	}
	return h.ClientSet()
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
		names.PluginClaims:   s.newClaims,
	}
}

// join returns the shared engine and the handle's profile, making them if needed.
func (s *Shared) join(ctx context.Context, h fwk.Handle) (*kubeengine.Engine, *profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		if s.sources.GPUNodes == nil {
			var err error
			if s.sources, err = watch.APISources(h.KubeConfig()); err != nil {
				return nil, nil, err
			}
		}
		e, err := kubeengine.New(kubeengine.Config{
			Factory: h.SharedInformerFactory(), Sources: s.sources, Claims: utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation),
			Observer: observe.New(), Reporter: s.reporter(ctx), Logger: klog.FromContext(ctx),
		})
		if err != nil {
			return nil, nil, err
		}
		e.Run(ctx)
		s.engine, s.answers = e, e.Answers(answer.DefaultAges())
		metrics.Register()
		metrics.Show(s.answers.State)
		s.events.outage = e.Gate().Suspended
	}
	s.handle = h
	s.recorders.add(h)
	return s.engine, s.profile(h.ProfileName()), nil
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

// settings are what the profile says about its pods.
func (p *profile) settings() workload.Profile {
	return workload.Profile{Placements: p.placements, Models: p.models, Weights: p.weights, Tenants: p.tenants}
}

// tune takes note of GPUQueue's arguments, which are the same in all profiles.
func (s *Shared) tune(args *QueueArgs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := args.tuning()
	if err != nil {
		return err
	}
	s.tuning = t
	s.stateArgs = args.State
	if err := s.audit.open(&args.Audit, &s.tuning); err != nil {
		return fmt.Errorf("audit.path: %w", err)
	}
	return nil
}

// reporter turns complaints about objects into events on them.
func (s *Shared) reporter(ctx context.Context) report.Reporter {
	logger := klog.FromContext(ctx)
	return func(c report.Complaint) {
		logger.Info("Invalid object", "kind", c.About.Kind, "object", klog.KRef(c.About.Namespace, c.About.Name), "reason", c.Reason, "problem", c.Message)
		s.recorders.of(names.SchedulerName).Eventf(c.About, nil, v1.EventTypeWarning, c.Reason, "Reading", "%s", c.Message)
	}
}

// recorders are the event recorders of the profiles, by scheduler name. They are added
// while the scheduler is built and only read afterwards.
type recorders struct {
	byName map[string]events.EventRecorderLogger
	any    events.EventRecorderLogger
}

func (r *recorders) add(h fwk.Handle) {
	if r.byName == nil {
		r.byName = map[string]events.EventRecorderLogger{}
	}
	r.any = h.EventRecorder()
	r.byName[h.ProfileName()] = r.any
}

// of is the recorder of a scheduler name, or any.
func (r *recorders) of(schedulerName string) events.EventRecorderLogger {
	if recorder := r.byName[schedulerName]; recorder != nil {
		return recorder
	}
	return r.any
}

// enlist decodes a plugin's arguments and joins its profile.
func enlist[A any](ctx context.Context, s *Shared, h fwk.Handle, obj runtime.Object) (*kubeengine.Engine, *profile, *A, error) {
	args := new(A)
	if err := decodeArgs(obj, args); err != nil {
		return nil, nil, nil, err
	}
	c, p, err := s.join(ctx, h)
	return c, p, args, err
}

// The engine checks itself against the API: some nodes and its accounts every
// selfCheck.every, all of it on SIGUSR2, as kube-scheduler does. A difference may be an event
// under way, so it is reported if it lasts for selfCheck.again.
