package engine

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/kube/answer"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Config is what an engine works with.
type Config struct {
	// Factory's informers are started by its owner; New adds handlers to them.
	Factory informers.SharedInformerFactory
	// Sources are where objects are watched that the informers do not know. Fixed, when not
	// nil, are such objects that do not change by themselves: nothing is watched then.
	Sources  watch.Sources
	Fixed    *Fixed
	Claims   bool              // ResourceSlices, ResourceClaims and DeviceClasses are followed
	Clock    func() time.Time  // the time; nil: time.Now
	Observer *observe.Observer // told what happens; nil: nothing is counted
	// Reporter reports invalid objects; nil: nor do steps look for why gangs wait.
	Reporter report.Reporter
	Logger   klog.Logger
}

// Fixed are objects that do not change by themselves.
type Fixed struct {
	inventory.Objects
	// Groups describe gangs, queues and priorities; kinds that are not served have no entry.
	Groups map[schema.GroupVersionResource][]*unstructured.Unstructured
}

// Engine is core's engine behind a lock, fed by informers. All methods are safe for
// concurrent use.
type Engine struct {
	clock     func() time.Time
	report    report.Reporter
	observer  *observe.Observer
	logger    klog.Logger
	inventory *inventory.Inventory
	objects   workload.Objects
	reader    *workload.Reader
	book      *dra.Book
	synced    []cache.InformerSynced
	feed      *feed
	gate      *Gate

	mu lock
	// driver is guarded by mu.
	driver *driver
}

// New wires an engine to the informers of a scheduler and to sources of objects they do not
// know. It starts nothing: see Run.
func New(c Config) (*Engine, error) {
	e := &Engine{clock: c.Clock, report: c.Reporter, observer: c.Observer, logger: c.Logger, feed: newFeed()}
	if e.clock == nil {
		e.clock = time.Now
	}
	if err := e.open(&c); err != nil {
		return nil, err
	}
	core := c.Factory.Core().V1()
	e.reader = &workload.Reader{Namespaces: core.Namespaces().Lister(), Levels: e.inventory.Levels}
	if c.Claims {
		var err error
		if e.book, err = dra.New(c.Factory, e.feed.claimChanges()); err != nil {
			return nil, err
		}
		e.inventory.SetDevices(e.book)
		e.synced = append(e.synced, e.book.Synced()...)
	}
	e.gate = &Gate{reader: e.reader, book: e.book, pods: core.Pods().Lister()}
	var err error
	if e.driver, err = newDriver(e, c.Factory); err != nil {
		return nil, err
	}
	return e, e.follow(c.Factory)
}

// open makes the inventory, and the watches on objects that describe gangs and queues.
func (e *Engine) open(c *Config) (err error) {
	e.objects = workload.Objects{}
	nodes := c.Factory.Core().V1().Nodes().Lister()
	if c.Fixed != nil {
		if e.inventory, err = inventory.Fixed(nodes, c.Fixed.Objects); err != nil {
			return err
		}
		for kind, list := range c.Fixed.Groups {
			if e.objects[kind], err = watch.Fixed(&unstructured.Unstructured{}, list); err != nil {
				return err
			}
		}
		return nil
	}
	nodeChanged := func(name string) { e.Push(NodeEvent(name)) }
	if e.inventory, err = inventory.New(nodes, c.Sources, nodeChanged, func() { e.Push(LevelsEvent()) }); err != nil {
		return err
	}
	for kind, source := range c.Sources.Groups {
		changed := func(key string) { e.Push(ObjectEvent(kind, key)) }
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
// are not waited for: a process with few rights (an extender) does without.
func (e *Engine) follow(factory informers.SharedInformerFactory) error {
	core := factory.Core().V1()
	for _, f := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
		await    bool
	}{
		{core.Pods().Informer(), e.feed.podHandler(), true},
		{core.Nodes().Informer(), e.feed.nodeHandler(), true},
		{core.Namespaces().Informer(), e.feed.namespaceHandler(), false},
		{factory.Policy().V1().PodDisruptionBudgets().Informer(), e.feed.budgetHandler(), false},
	} {
		r, err := f.informer.AddEventHandler(f.handler)
		if err != nil {
			return err
		}
		if f.await {
			e.synced = append(e.synced, r.HasSynced)
		}
	}
	e.synced = append(e.synced, e.inventory.Synced)
	return nil
}

// Run watches the sources and evaluates selectors of claims until the context ends. It does
// not block.
func (e *Engine) Run(ctx context.Context) {
	e.inventory.Run(ctx)
	for _, w := range e.objects {
		go w.Run(ctx)
	}
	if e.book != nil {
		go e.book.Run(ctx)
	}
}

// do runs a function under the lock, with all events that have come applied before. The lock
// is released also when f panics: callers may recover.
func (e *Engine) do(what string, f func(d *driver, now time.Time)) {
	var complaints []report.Complaint
	waiting := false
	e.mu.Lock()
	held := under(e.mu.Unlock, func() {
		now, d := e.clock(), e.driver
		d.now = now.UnixNano()
		d.drain(now)
		f(d, now)
		d.mirror()
		e.gate.suspended.Store(d.core.Suspended())
		complaints = d.complaints.Take()
		waiting = d.outbox.waits()
	})
	e.observer.LockHeld(what, held)
	if e.report != nil {
		for _, c := range complaints {
			e.report(c)
		}
	}
	if waiting {
		e.feed.kick()
	}
}

// Look reads under the lock. Events that have come are not applied: that is the next call's
// business. It goes before calls that wait for their turn (lock). The lock is released also
// when f panics: the query server goes on.
func (e *Engine) Look(what string, f func(*answer.View)) (waited, held time.Duration) {
	began := time.Now()
	held = under(e.mu.LockAhead(), func() { f(&e.driver.view) })
	e.observer.LockHeld(what, held)
	return time.Since(began) - held, held
}

// under runs a function under a lock that is held, gives the lock back and says how long
// that took.
func under(unlock, f func()) (held time.Duration) {
	defer unlock()
	began := time.Now()
	f()
	return time.Since(began) // before unlocking, which may let a waiter run first
}

// Gate is what may be asked without the lock.
func (e *Engine) Gate() *Gate { return e.gate }

// Claims reads what ResourceSlices and ResourceClaims say; nil where they are not followed.
func (e *Engine) Claims() *dra.Book { return e.book }

// Objects are those that describe gangs, queues and priorities, by kind.
func (e *Engine) Objects() workload.Objects { return e.objects }

// Answers returns answers to questions about this engine.
func (e *Engine) Answers(a answer.Ages) *answer.Answers {
	return answer.New(answer.Config{
		Reader: e, Clock: e.clock, Pods: e.driver.pods, Inventory: e.inventory, Gate: e.gate, Timeline: e.observer.Timeline(), Logger: e.logger, Ages: a,
	})
}

// WaitForSync blocks until everything has been seen that existed when the informers
// started, and is in the ledger.
func (e *Engine) WaitForSync(ctx context.Context) bool {
	if !cache.WaitForCacheSync(ctx.Done(), e.synced...) {
		return false
	}
	e.Drain()
	return true
}

// Drain applies the events that have come. Core hears of changed gangs with the next step,
// or Sync.
func (e *Engine) Drain() { e.do("sync", func(*driver, time.Time) {}) }

// Sync applies the events that have come, without deciding: for a process that does not
// lead. Core hears of gangs meanwhile, also of those that are gone. It returns the pods that
// turned out to be kube-scheduler's; nothing else is left for a step to carry out, because
// the loop would be woken for it again at once.
func (e *Engine) Sync() (free []*v1.Pod) {
	e.do("sync", func(d *driver, now time.Time) {
		d.describeChanged(now)
		d.countFleet()
		d.mirror()
		free = take(&d.outbox).activate
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

// Push says that objects came, changed or went, where no informer does: their stores have
// the latest already.
func (e *Engine) Push(events ...Event) {
	for _, ev := range events {
		e.feed.push(ev)
	}
}
