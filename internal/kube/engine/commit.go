package engine

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Release is the place that a pod was given.
type Release = engine.Release

// Cycle is a scheduling cycle: what it needs to know of its pod, and, for a released pod, its
// way to tell the engine what becomes of it. Of a pod that is not released it only says what
// the pod asks for.
type Cycle struct {
	engine *Engine
	Pod    *v1.Pod
	Release
	Request *model.Request
	// Queue is the queue that is charged for the pod, Name its gang's name.
	Queue, Name string
	// Claims is what the pod's ResourceClaims mean; nil when it has none that matter.
	Claims *dra.Ask
	// Timeline is when the pod passed the stages until now.
	Timeline metrics.Timeline
}

// A single pod that goes to its planned node takes the lock once, to confirm its place
// before the Binding is written; a member of a gang once more, to hear whether all others are
// there. All else the gate knows, or is queued for core, which the next call tells.

// Begin tells that a pod's scheduling cycle begins; false when it has no release. It takes no
// lock.
func (e *Engine) Begin(pod *v1.Pod) (Cycle, bool) {
	planned, ok := e.gate.releases.get(model.HolderID(pod.UID))
	if !ok {
		return Cycle{}, false
	}
	c := *planned
	c.engine = e
	e.feed.tell(engine.CycleBegan{Holder: c.Holder, Ticket: c.Ticket})
	return c, true
}

// released says whether the pod still has the release of its cycle, as far as the gate knows.
func (c *Cycle) released() bool {
	now, ok := c.engine.gate.releases.get(c.Holder)
	return ok && now.Ticket == c.Ticket
}

// cycle is what the cycle of a released member needs to know.
func (d *driver) cycle(m *workload.Member, r Release) *Cycle {
	h := r.Holder
	return &Cycle{Pod: m.Pod, Release: r, Request: m.Request, Queue: d.core.Gangs.QueueOf(h), Name: d.nameOf(h), Claims: m.Ask, Timeline: d.observer.Begun(h)}
}

// ByClaim says whether the pod's GPUs are asked for through ResourceClaims.
func (c *Cycle) ByClaim() bool { return c.Claims != nil && c.Claims.By != nil }

// Alternatives are nodes other than the planned one on which the pod could start as well.
func (c *Cycle) Alternatives(limit int) (out []model.NodeID) {
	c.engine.do("search", func(d *driver, _ time.Time) { out = d.core.Nodes.Alternatives(c.Holder, c.Ticket, limit) })
	return out
}

// Take confirms that the pod still has its place, or, where it starts alone, gives it
// another one that its cycle prefers.
func (c *Cycle) Take(node model.NodeID) (refusal *explain.Refusal) {
	if node == c.Node.ID && c.released() {
		return nil
	}
	c.engine.do("take", func(d *driver, _ time.Time) {
		out := d.tell(engine.NodeChosen{Holder: c.Holder, Ticket: c.Ticket, Node: node})
		if refusal = out.Refusal; refusal == nil {
			c.moved(d, out.Release)
		}
	})
	return refusal
}

// moved takes note that the pod has another place.
func (c *Cycle) moved(d *driver, r Release) {
	c.Release = r
	now := *c
	d.gate.releases.put(c.Holder, &now)
}

// Reserved tells that the pod waits for the others of its batch only. ready: all of them do,
// and others are their names; not ok: the place was taken back.
func (c *Cycle) Reserved() (ready bool, others []model.HolderID, ok bool) {
	reserved := engine.MemberReserved{Holder: c.Holder, Ticket: c.Ticket}
	if c.Alone {
		c.engine.feed.tell(reserved)
		ok = c.released()
		return ok, nil, ok
	}
	c.engine.do("reserved", func(d *driver, _ time.Time) {
		out := d.tell(reserved)
		ready, others, ok = out.Ready, out.Others, out.OK
	})
	return ready, others, ok
}

// Weight is what a pod's place is worth to an autoscaler: whether others of its gang cannot
// run without the pod, and how much of devices it holds, in thousandths of one.
type Weight struct {
	Gang  bool
	Milli int64
}

// Confirm says whether the Binding may be written: the ticket is good, and the ledger still
// gives the pod just these devices.
func (c *Cycle) Confirm() (w Weight, ok bool) {
	c.engine.do("confirm", func(d *driver, _ time.Time) {
		if ok = d.core.Releases.Holds(c.Holder, c.Ticket); !ok {
			return
		}
		if id, in := d.core.Gangs.Of(c.Holder); in {
			g, _ := d.core.Gangs.Gang(id)
			w.Gang = g.Min > 1
		}
		for _, hold := range d.core.Figures.Holding(c.Holder) {
			w.Milli += hold.Milli
		}
	})
	return w, ok
}

// Verdict is what kube-scheduler's filters said of a node.
type Verdict struct {
	Node model.NodeID
	Said string
	Late bool // they judged by pods that are gone, or do not know the node yet
}

// Took tells that the filters let the pod onto a node.
func (c *Cycle) Took(node model.NodeID) {
	c.engine.feed.tell(engine.NodeTook{Holder: c.Holder, Node: node})
}

// Excluded tells of nodes that the filters refused for the pod, which goes to another one.
func (c *Cycle) Excluded(verdicts []Verdict) { c.engine.feed.tell(c.refused(verdicts)...) }

// refused is what filters said of nodes, for core.
func (c *Cycle) refused(verdicts []Verdict) (out []engine.Event) {
	for _, v := range verdicts {
		out = append(out, engine.NodeRefused{Holder: c.Holder, Node: v.Node, Why: explain.Refusal{Code: explain.Filtered, Detail: v.Said}, Late: v.Late})
	}
	return out
}

// Refused tells which nodes the filters refused for the pod, whose place was planned, and
// takes its start back: it is planned anew, elsewhere. It returns the members that must stop
// waiting for it.
func (c *Cycle) Refused(verdicts []Verdict) (stop []model.HolderID) {
	said := ""
	if len(verdicts) > 0 {
		said = verdicts[len(verdicts)-1].Said
	}
	return c.failed("refused", true, said, "", c.refused(verdicts)...)
}

// RefusedEverywhere tells that kube-scheduler refuses the pod on every node, but for some
// when except is not nil, and takes its start back.
func (c *Cycle) RefusedEverywhere(said string, except []model.NodeID) (stop []model.HolderID) {
	why := explain.Refusal{Code: explain.Filtered, Detail: said}
	return c.failed("refused", true, said, "", engine.AllNodesRefused{Holder: c.Holder, Why: why, Except: except, Limited: except != nil})
}

// Failed tells that the cycle failed for reasons other than its planned node. It returns the
// members that must stop waiting for the pod.
func (c *Cycle) Failed(why string) (stop []model.HolderID) {
	return c.failed("failed", false, why, why)
}

// failed takes a start back. atFault: the planned node was wrong; why is what core remembers
// otherwise, said what the timeline shows.
func (c *Cycle) failed(what string, atFault bool, said, why string, before ...engine.Event) (stop []model.HolderID) {
	c.engine.do(what, func(d *driver, now time.Time) {
		d.tell(append(before, engine.StartFailed{Holder: c.Holder, Ticket: c.Ticket, AtFault: atFault, Why: why})...)
		d.observer.Failed(c.Holder, said, now)
		stop = d.stopped()
	})
	return stop
}

// Unreachable tells that the API server could not be written to: nothing is started for
// a while, longer each time.
func (e *Engine) Unreachable() {
	e.do("unreachable", func(d *driver, _ time.Time) { d.tell(engine.Suspended{}) })
}

// Reachable tells that a write to the API server succeeded.
func (e *Engine) Reachable() {
	if e.gate.Suspended() {
		e.do("reachable", func(d *driver, _ time.Time) { d.tell(engine.Resumed{}) })
	}
}
