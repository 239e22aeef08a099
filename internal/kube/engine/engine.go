package engine

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Engine is core's engine behind a lock, fed by informers. All methods are safe for
// concurrent use.
type Engine struct {
	inventory  *inventory.Inventory
	reader     *workload.Reader
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	objects    workload.Objects
	synced     []cache.InformerSynced
	feed       *feed
	gate       gate
	// book reads ResourceSlices and ResourceClaims; nil where they are not watched.
	book *dra.Book
	// suspended: the API server could not be written to.
	suspended atomic.Bool
	// leading: this process decides, as observed.leads says, for those without the lock.
	leading atomic.Bool
	clock   func() time.Time
	logger  klog.Logger
	report  report.Reporter

	// foreseer says when gangs start, by a forecast; nil: nobody does.
	foreseer atomic.Pointer[Foreseer]
	// copied: it is a Replica's, and counts nothing in this process's metrics.
	copied bool

	// checked is the node that CheckSome looked at last; it has one caller.
	checked int
	// shown is what a scrape was last shown, pictures what questions are answered with.
	shown    shown
	pictures pictures

	// turns is the order of waiting gangs that a question was last shown.
	turns picture[turnOrder]

	mu lock
	// Everything below is guarded by mu.
	core   *engine.Engine
	work   *workload.Gangs
	facts  *facts
	queues queues
	quotas map[string]arbiter.Quota // by namespace
	desk   *report.Desk
	timing Timing
	// arrived are pods whose arrival the planner has heard of.
	arrived map[model.HolderID]bool
	// contested are pods whose records cannot be honoured, by UID, and what is said of
	// them: the younger of two that name a device has to go.
	contested map[string]*contest
	// agents are the nodes with an agent, which corrects records.
	agents    map[model.NodeID]bool
	telemetry staleness
	// started: what existed when this process started has been looked at.
	started bool
	// fleetChanged: the tree of queues has not heard of the latest nodes.
	fleetChanged bool
	// paths are the nodes' domains; levelsStale: the levels of domains may be others now.
	paths       map[model.NodeID][]string
	levelsStale bool
	// outbox is what is to be carried out by the next step's caller; complaints are
	// reported as soon as the lock is released.
	outbox     outbox
	complaints []report.Complaint
	observed   observed
	// stages is what the timeline has told of gangs.
	stages   map[engine.ID]stage
	refusals refusals
	demands  demands
	claims   claims
	// kept is what questions found.
	kept keptAnswers
}

// outbox gathers what must not be done under the lock: it waits for the next step.
type outbox struct {
	activate []*v1.Pod
	requeue  []*v1.Pod
	stop     []model.HolderID
}

// New wires an engine to the informers of a scheduler and to sources of objects it does
// not know. The informers are started by the scheduler, the watches on the sources at
// once.
func New(ctx context.Context, factory informers.SharedInformerFactory, from watch.Sources, tell report.Reporter) (*Engine, error) {
	core := factory.Core().V1()
	e := blank(factory)
	e.clock, e.logger, e.report = time.Now, klog.FromContext(ctx), tell
	var err error
	nodeChanged := func(name string) { e.feed.push(event{kind: aboutNode, key: name}, nil) }
	levelsChanged := func() { e.feed.push(event{kind: aboutLevels}, nil) }
	if e.inventory, err = inventory.New(core.Nodes().Lister(), from, nodeChanged, levelsChanged); err != nil {
		return nil, err
	}
	if err := e.watchObjects(from); err != nil {
		return nil, err
	}
	if err := e.compose(factory); err != nil {
		return nil, err
	}
	if err := e.follow(factory); err != nil {
		return nil, err
	}
	e.inventory.Run(ctx)
	for _, w := range e.objects {
		go w.Run(ctx)
	}
	return e, nil
}

// blank is an engine that knows nothing.
func blank(factory informers.SharedInformerFactory) *Engine {
	core := factory.Core().V1()
	return &Engine{
		pods: core.Pods().Lister(), namespaces: core.Namespaces().Lister(), feed: newFeed(),
		objects: workload.Objects{}, quotas: map[string]arbiter.Quota{}, queues: newQueues(), desk: report.NewDesk(), timing: DefaultTiming(),
		arrived: map[model.HolderID]bool{}, contested: map[string]*contest{}, fleetChanged: true,
		agents: map[model.NodeID]bool{}, paths: map[model.NodeID][]string{}, telemetry: staleness{maxAge: TelemetryMaxAge, until: map[model.NodeID]time.Time{}},
		observed: newObserved(), stages: map[engine.ID]stage{},
	}
}

// compose makes core's engine and what reads pods for it, once inventory and objects are
// there.
func (e *Engine) compose(factory informers.SharedInformerFactory) error {
	e.reader = &workload.Reader{Namespaces: e.namespaces, Levels: e.inventory.Levels}
	e.work = workload.New(e.reader, e.pods, e.objects)
	e.facts = &facts{work: e.work, nodes: map[model.NodeID]*v1.Node{}, claimsOnly: map[model.NodeID]bool{}, budgets: budgets{
		lister: factory.Policy().V1().PodDisruptionBudgets().Lister(), byNamespace: map[string][]budget{}}}
	l := ledger.New()
	tree, err := arbiter.NewTree(e.queues.tree, nil)
	if err != nil {
		return err
	}
	options := engine.DefaultOptions()
	options.BatchTimeout, options.Facts = BatchTimeout, e.facts
	e.core = engine.New(l, planner.New(l), tree, options)
	return nil
}

// watchObjects prepares the watches on objects that describe gangs and queues.
func (e *Engine) watchObjects(from watch.Sources) error {
	for kind, source := range from.Groups {
		changed := func(key string) { e.feed.push(event{kind: aboutOwner, key: key, owner: kind}, nil) }
		switch kind {
		case dialect.Queues, dialect.KAIQueues:
			changed = func(name string) { e.feed.push(event{kind: aboutQueue, key: name}, nil) }
		case dialect.Priorities:
			changed = func(string) { e.feed.push(event{kind: aboutPriorities}, nil) }
		}
		w, err := watch.New[*unstructured.Unstructured](source, &unstructured.Unstructured{}, "No "+kind.Resource+" here", changed, func() {})
		if err != nil {
			return err
		}
		e.objects[kind] = w
		e.synced = append(e.synced, w.Synced)
	}
	return nil
}

// follow adds the feed's handlers to the scheduler's informers. Namespaces and budgets
// are not waited for: a reader with few rights (an extender) does without.
func (e *Engine) follow(factory informers.SharedInformerFactory) error {
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(e.feed.podHandler())
	if err != nil {
		return err
	}
	nodes, err := factory.Core().V1().Nodes().Informer().AddEventHandler(e.feed.nodeHandler())
	if err != nil {
		return err
	}
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(e.feed.namespaceHandler()); err != nil {
		return err
	}
	if _, err := factory.Policy().V1().PodDisruptionBudgets().Informer().AddEventHandler(e.feed.budgetHandler()); err != nil {
		return err
	}
	e.synced = append(e.synced, pods.HasSynced, nodes.HasSynced, e.inventory.Synced)
	return nil
}

// do runs a function on core under the lock, with all events that have come applied
// before. The lock is released also when f panics: callers may recover.
func (e *Engine) do(what string, f func(now time.Time)) {
	var complaints []report.Complaint
	waiting := false
	held := e.locked(func() {
		now := e.clock()
		e.core.Tick(now.UnixNano())
		e.drain(now)
		f(now)
		e.mirror()
		e.suspended.Store(e.core.Suspended())
		complaints, e.complaints = e.complaints, nil
		waiting = len(e.outbox.activate)+len(e.outbox.requeue)+len(e.outbox.stop) > 0
	})
	if !e.copied {
		metrics.LockHeld(what, held)
	}
	for _, c := range complaints {
		e.report(c)
	}
	if waiting {
		e.feed.kick()
	}
}

// stopped takes the pods that must stop waiting at Permit. The caller holds the lock.
func (e *Engine) stopped() []model.HolderID {
	e.mirror()
	out := e.outbox.stop
	e.outbox.stop = nil
	return out
}

// mirror brings the gate up to date with what core did. What was released and revoked
// since the last time counts as it is now.
func (e *Engine) mirror() {
	fx := e.core.Effects()
	retried := 0
	for _, h := range fx.Revoked {
		if _, still := e.core.Release(h); !still {
			e.gate.releases.remove(h)
		}
		if e.core.Pauses(h) {
			e.gate.paused.put(h, true)
		} else {
			e.gate.paused.remove(h)
		}
		if m := e.work.Member(h); m != nil && m.Pod.Spec.NodeName == "" {
			retried++ // else it is bound, or gone
			e.claimsAgain(m.Pod)
		}
	}
	if !e.copied {
		metrics.Retried(retried)
	}
	for _, r := range fx.Released {
		if now, still := e.core.Release(r.Holder); still && now.Ticket == r.Ticket {
			e.gate.rank(r.Holder)
			e.gate.paused.remove(r.Holder)
			e.gate.releases.put(r.Holder, r)
			e.observed.planned[r.Holder] = e.observed.step
			fx.Activate = append(fx.Activate, r.Holder)
		}
	}
	e.outbox.stop = append(e.outbox.stop, fx.Stop...)
	for _, h := range fx.Activate {
		if m := e.work.Member(h); m != nil {
			e.outbox.activate = append(e.outbox.activate, m.Pod)
		}
	}
	for _, h := range fx.Requeue {
		if m := e.work.Member(h); m != nil {
			e.outbox.requeue = append(e.outbox.requeue, m.Pod)
		}
	}
	for _, p := range e.work.Freed() {
		if h := model.HolderID(p.UID); e.work.Member(h) == nil { // else it became the engine's again
			e.gate.free.put(h, true)
			e.outbox.activate = append(e.outbox.activate, p)
		}
	}
}

// Configure changes how core decides, from the next step on.
func (e *Engine) Configure(change func(*engine.Options)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.Configure(change)
}

// ReportEvery sets how often conditions of waiting pods are brought up to date at most.
func (e *Engine) ReportEvery(every time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.desk.SetEvery(every)
}

// Own says that the pods of a scheduler name are placed here, and what its profile says
// about them.
func (e *Engine) Own(schedulerName string, p workload.Profile) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reader.Own(schedulerName, p)
}

// Owns says whether pods of a scheduler name are placed here.
func (e *Engine) Owns(schedulerName string) bool { return e.reader.Owns(schedulerName) }

// Protect sets the namespaces whose pods are never victims.
func (e *Engine) Protect(namespaces []string) { e.reader.Protect(namespaces) }

// Levels are the levels of domains, outermost first; not to be changed.
func (e *Engine) Levels() topology.Levels { return e.inventory.Levels() }

// SetLevels sets the levels of domains and looks at every node again.
func (e *Engine) SetLevels(levels topology.Levels) {
	e.inventory.SetLevels(levels)
	for _, d := range e.inventory.All() {
		e.feed.push(event{kind: aboutNode, key: d.Object.Name}, nil)
	}
}

// WaitForSync blocks until everything has been seen that existed when the informers
// started, and is in the ledger.
func (e *Engine) WaitForSync(ctx context.Context) bool {
	if !cache.WaitForCacheSync(ctx.Done(), e.synced...) {
		return false
	}
	e.do("sync", func(time.Time) {})
	return true
}

// Sync applies the events that have come, without deciding: for a process that does not
// lead. Core hears of gangs meanwhile, also of those that are gone. It returns the pods that
// turned out to be kube-scheduler's; nothing else is left for a step to carry out,
// because the loop would be woken for it again at once.
func (e *Engine) Sync() (free []*v1.Pod) {
	e.do("sync", func(now time.Time) {
		e.describeChanged(now)
		e.mirror()
		free = e.outbox.activate
		e.outbox = outbox{}
	})
	return free
}

// Follow applies events as they come, without deciding, until the context ends.
func (e *Engine) Follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.feed.kicked:
			e.Sync()
		}
	}
}

// Kicked tells that something changed that may let a gang start.
func (e *Engine) Kicked() <-chan struct{} { return e.feed.kicked }
