package engine

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/replay"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	"github.com/tangram-dev/tangram/internal/kube/claims"
	"github.com/tangram-dev/tangram/internal/kube/contest"
	"github.com/tangram-dev/tangram/internal/kube/demand"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// driver feeds core with what the stores say, and carries core's effects to the gate and to
// the outbox. It is reached under the engine's lock alone; all calls that change core are
// its own, and those of a Cycle.
type driver struct {
	core      *engine.Engine
	feed      *feed
	gate      *Gate
	inventory *inventory.Inventory
	reader    *workload.Reader
	pods      corelisters.PodLister
	logger    klog.Logger

	// The parts, each with its own state.
	work       *workload.Gangs
	facts      *facts
	queues     *queues
	quotas     *quotas
	claims     *claims.Claims // nil where claims are not followed
	contests   *contest.Contests
	demands    *demand.Demands
	observer   *observe.Observer // nil: nothing is observed
	notices    *report.Notices
	refusals   refusals
	complaints report.Complaints
	freshness  *inventory.Freshness
	// recorder writes down what core is told and decides; nil: nothing is.
	recorder *replay.Recorder
	view     answer.View // what questions read of the parts

	// now is the time of this turn of the lock, in nanoseconds; effects wait for mirror.
	now     int64
	effects effects
	timing  Timing
	started bool // what existed when this process started has been read
	// arrived are pods whose arrival the planner has heard of.
	arrived map[model.HolderID]bool
	// fleetChanged: the tree of queues has not heard of the latest nodes.
	fleetChanged bool
	// domains are the nodes'; levelsStale: the levels of domains may be others now.
	domains     map[model.NodeID][]string
	levelsStale bool
	outbox      outbox
}

// outbox gathers what must not be done under the lock: it waits for the next step's caller.
type outbox struct {
	activate []*v1.Pod
	requeue  []*v1.Pod
	stop     []model.HolderID
}

func (o *outbox) waits() bool { return len(o.activate)+len(o.requeue)+len(o.stop) > 0 }

// take returns what was gathered, and begins anew.
func take[T any](gathered *T) T {
	out := *gathered
	*gathered = *new(T)
	return out
}

// newDriver makes core's engine and the parts around it.
func newDriver(e *Engine, factory informers.SharedInformerFactory) (*driver, error) {
	d := &driver{
		feed: e.feed, gate: e.gate, inventory: e.inventory, reader: e.reader, pods: factory.Core().V1().Pods().Lister(), logger: e.logger, observer: e.observer,
		queues: newQueues(e.objects), quotas: &quotas{e.reader.Namespaces, map[string]arbiter.Quota{}}, notices: report.NewNotices(), freshness: inventory.NewFreshness(),
		timing: DefaultTiming(), fleetChanged: true, arrived: map[model.HolderID]bool{}, domains: map[model.NodeID][]string{},
	}
	d.work = workload.New(d.reader, d.pods, e.objects)
	d.facts = newFacts(d.work, factory.Policy().V1().PodDisruptionBudgets().Lister())
	l := ledger.New()
	tree, err := arbiter.NewTree(d.queues.tree, nil)
	if err != nil {
		return nil, err
	}
	options := engine.DefaultOptions()
	options.BatchTimeout, options.Facts = BatchTimeout, d.facts
	d.core = engine.New(l, planner.New(l), tree, options)
	if e.book != nil {
		d.claims = claims.New(e.book, d.core.Nodes, d.gate, d.pods, e.clock)
		d.reader.Claims = d.claims.Ask
	}
	d.contests = contest.New(d.core.Nodes, d.pods, d.podOf)
	d.demands = demand.New(d.core.Answers, d.work, d.inventory.Levels)
	d.observer.Read(d.core.Answers, d.work)
	d.view = answer.View{
		Core: d.core.Answers, Work: d.work, Notices: d.notices, Claims: d.claims, Contests: d.contests, Demands: d.demands, Observer: d.observer, Condition: d.facts.condition,
	}
	return d, nil
}

// tell tells core of events.
func (d *driver) tell(events ...engine.Event) engine.Outcome {
	out := d.core.Apply(d.now, events...)
	d.effects.add(&out.Effects)
	return out
}

// effects gathers what core wants to be carried out.
type effects engine.Effects

func (e *effects) add(fx *engine.Effects) {
	e.Revoked, e.Stop = append(e.Revoked, fx.Revoked...), append(e.Stop, fx.Stop...)
	e.Released = append(e.Released, fx.Released...)
	e.Activate, e.Requeue = append(e.Activate, fx.Activate...), append(e.Requeue, fx.Requeue...)
}

// mirror brings the gate up to date with what core did. What was released and revoked since
// the last time counts as it is now.
func (d *driver) mirror() {
	fx := take(&d.effects)
	retried := 0
	for _, h := range fx.Revoked {
		if _, still := d.core.Releases.Of(h); !still {
			d.gate.releases.remove(h)
		}
		if d.core.Releases.Pauses(h) {
			d.gate.paused.put(h, true)
		} else {
			d.gate.paused.remove(h)
		}
		if m := d.work.Member(h); m != nil && m.Pod.Spec.NodeName == "" {
			retried++ // else it is bound, or gone
			if d.claims.Concern(m.Pod) {
				d.feed.push(PodEvent(m.Pod)) // some may have been allocated meanwhile
			}
		}
	}
	d.observer.Retried(retried)
	for _, r := range fx.Released {
		m := d.work.Member(r.Holder)
		if now, still := d.core.Releases.Of(r.Holder); still && now.Ticket == r.Ticket && m != nil {
			d.gate.rank(r.Holder)
			d.gate.paused.remove(r.Holder)
			d.observer.Released(r.Holder)
			d.gate.releases.put(r.Holder, d.cycle(m, now))
			fx.Activate = append(fx.Activate, r.Holder)
		}
	}
	d.outbox.stop = append(d.outbox.stop, fx.Stop...)
	d.outbox.activate = append(d.outbox.activate, d.podsOf(fx.Activate)...)
	d.outbox.requeue = append(d.outbox.requeue, d.podsOf(fx.Requeue)...)
	for _, p := range d.work.Freed() {
		if h := model.HolderID(p.UID); d.work.Member(h) == nil { // else it became the engine's again
			d.gate.free.put(h, true)
			d.outbox.activate = append(d.outbox.activate, p)
		}
	}
}

// podsOf are the pods of members.
func (d *driver) podsOf(members []model.HolderID) (out []*v1.Pod) {
	for _, h := range members {
		if m := d.work.Member(h); m != nil {
			out = append(out, m.Pod)
		}
	}
	return out
}

// stopped takes the pods that must stop waiting at Permit.
func (d *driver) stopped() []model.HolderID {
	d.mirror()
	return take(&d.outbox.stop)
}

// countFleet tells the tree of queues what nodes offer, if that has changed.
func (d *driver) countFleet() {
	if d.fleetChanged {
		d.fleetChanged = false
		d.tell(engine.FleetCounted{})
	}
}

// nameOf is the name of a holder's gang; empty when it has none.
func (d *driver) nameOf(h model.HolderID) string {
	id, _ := d.core.Gangs.Of(h)
	g, _ := d.core.Gangs.Gang(id)
	return g.Name
}

// sooner is the earlier of two times, of which zero ones are none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
