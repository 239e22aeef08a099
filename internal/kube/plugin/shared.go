package plugin

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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
	"github.com/tangram-dev/tangram/internal/version"
)

// Shared is what all plugins of all profiles of one scheduler share: one ledger. The
// framework builds plugins in random order, so the first one makes it.
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

// awaitSync blocks a pod that asks for GPUs until the ledger has seen what existed.
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

// NewShared returns one scheduler's state; without sources those of its API server.
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

// profile returns what is known of a profile, or a new one. The caller holds the lock.
func (s *Shared) profile(name string) *profile {
	p := s.profiles[name]
	if p == nil {
		p = &profile{weights: score.DefaultWeights()}
		s.profiles[name] = p
	}
	return p
}

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

// recorders are the profiles' event recorders, by scheduler name, added while it is built.
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

// setLevels takes over the levels of domains that a profile's arguments list. There is one
// tree of nodes, so profiles must agree; one that lists none takes what the others list.
func (s *Shared) setLevels(profile string, args *FilterArgs) error {
	levels, err := args.levels()
	if err != nil || levels == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.levels != "" {
		if !slices.Equal(levels, s.engine.Levels()) {
			return fmt.Errorf("topologyLevels: other levels than in profile %q, and the scheduler has one tree of domains", s.levels)
		}
		return nil
	}
	s.levels = profile
	s.engine.Configure(func(set *kubeengine.Settings) { set.Levels = levels })
	return nil
}

// setTelemetryMaxAge takes over how old telemetry may be. There is one ledger for all
// profiles, so profiles must agree; one that says nothing takes what the others say.
func (s *Shared) setTelemetryMaxAge(profile string, age time.Duration) error {
	if age == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxAge.profile != "" {
		if age != s.maxAge.age {
			return fmt.Errorf("telemetryMaxAge: %s, but %s in profile %q, and there is one for all", age, s.maxAge.age, s.maxAge.profile)
		}
		return nil
	}
	s.maxAge.profile, s.maxAge.age = profile, age
	s.engine.Configure(func(set *kubeengine.Settings) { set.TelemetryMaxAge = age })
	return nil
}

// record begins the recording that GPUQueue's arguments ask for, once for all profiles.
func (s *Shared) record(e *kubeengine.Engine, args *RecordingArgs) error {
	if args.Megabytes < 0 || args.Megabytes > maxRecording {
		return fmt.Errorf("recording.megabytes: %d, must be 0 to %d", args.Megabytes, maxRecording)
	}
	if args.Megabytes == 0 && args.File == "" || s.recording {
		return nil
	}
	s.recording = true
	var sink func([]byte)
	if args.File != "" {
		// One file for each process: a recording begins with the engine that it is of.
		f, err := os.OpenFile(fmt.Sprintf("%s.%d", args.File, os.Getpid()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("recording.file: %w", err)
		}
		sink = func(line []byte) { _, _ = f.Write(line) } // a disk that is full ends the recording, not the scheduler
	}
	return kubeengine.Record(e, version.Get().String(), args.Megabytes<<20, sink)
}

// The engine checks itself against the API: some nodes and its accounts every
// selfCheck.every, all of it on SIGUSR2, as kube-scheduler does. A difference may be an event
// under way, so it is reported if it lasts for selfCheck.again.

// checkItself checks until the context ends. It does not block.
func (s *Shared) checkItself(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	checker := s.Engine().Checker()
	go func() {
		defer signal.Stop(signals)
		logger := klog.FromContext(ctx)
		now := time.NewTicker(s.tuning.check.every)
		defer now.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-now.C:
				s.checkSome(ctx, checker)
			case <-signals:
				if holders, err := checker.All(); err != nil {
					logger.Error(err, "Ledger check failed")
				} else {
					logger.Info("Ledger check passed: it equals the records; limits, gangs and lost pods checked", "holders", holders)
				}
			}
		}
	}()
}

func (s *Shared) checkSome(ctx context.Context, checker *kubeengine.Checker) {
	holders, node, err := checker.Some(s.tuning.check.nodes)
	if err == nil {
		klog.FromContext(ctx).Info("Periodic ledger check passed: some nodes, all limits, gangs and lost pods checked", "holders", holders)
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(s.tuning.check.again):
	}
	if _, again := checker.All(); again == nil {
		return
	}
	metrics.CheckFailed("periodic")
	klog.FromContext(ctx).Error(err, "Periodic ledger check failed")
	if node != nil {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
		s.recorders.of(names.SchedulerName).Eventf(ref, nil, v1.EventTypeWarning, "LedgerDiffers", "Checking", "%s", err.Error())
	}
}
