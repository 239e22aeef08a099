package engine

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// Cycle is what a scheduling cycle needs to know of its pod.
type Cycle struct {
	engine.Release
	Request *model.Request
	// Queue is the queue that is charged for the pod, Name its gang's name.
	Queue, Name string
	// Claims is what the pod's ResourceClaims mean; nil when it has none that matter.
	Claims *dra.Ask
	// Timeline is when the pod passed the stages until now.
	Timeline metrics.Timeline
}

// Begin tells that a pod's scheduling cycle begins; false when it has no release.
func (e *Engine) Begin(pod *v1.Pod) (c Cycle, ok bool) {
	h := model.HolderID(pod.UID)
	e.do("begin", func(time.Time) {
		m := e.work.Member(h)
		if c.Release, ok = e.core.Release(h); !ok || m == nil {
			ok = false
			return
		}
		c.Request, c.Queue, c.Name, c.Timeline = m.Request, e.core.QueueOf(h), e.nameOf(h), e.observed.timeline(h)
		c.Claims = m.Ask()
		e.core.Seen(h, c.Ticket)
	})
	return c, ok
}

// Take confirms that a pod still has its place, or, where it starts alone, gives it
// another one that its cycle prefers.
func (e *Engine) Take(pod *v1.Pod, t engine.Ticket, node model.NodeID) (r engine.Release, refusal *explain.Refusal) {
	e.do("take", func(time.Time) { r, refusal = e.core.Move(model.HolderID(pod.UID), t, node) })
	return r, refusal
}

// Reserved tells that a member waits for the others of its batch only.
func (e *Engine) Reserved(pod *v1.Pod, t engine.Ticket) (ready bool, others []model.HolderID, ok bool) {
	e.do("reserved", func(time.Time) { ready, others, ok = e.core.Reserved(model.HolderID(pod.UID), t) })
	return ready, others, ok
}

// Confirm says whether the Binding may be written: the ticket is good, and the ledger
// still gives the pod just these devices.
func (e *Engine) Confirm(pod *v1.Pod, t engine.Ticket) (ok bool) {
	e.do("confirm", func(time.Time) { ok = e.core.Holds(model.HolderID(pod.UID), t) })
	return ok
}

// Verdict is what kube-scheduler's filters said of a node.
type Verdict struct {
	Node model.NodeID
	Said string
	// Late: they judged by pods that are gone, or do not know the node yet.
	Late bool
}

// Took tells that the filters let a pod onto a node.
func (e *Engine) Took(pod *v1.Pod, node model.NodeID) {
	e.do("took", func(time.Time) { e.core.Took(model.HolderID(pod.UID), node) })
}

// Refused tells which nodes the filters refused for a pod whose place was planned, and
// takes its start back: it is planned anew, elsewhere. It returns the members that must
// stop waiting for it.
func (e *Engine) Refused(pod *v1.Pod, t engine.Ticket, verdicts []Verdict) (stop []model.HolderID) {
	h := model.HolderID(pod.UID)
	e.do("refused", func(now time.Time) {
		said := ""
		for _, v := range verdicts {
			e.core.Refused(h, v.Node, explain.Refusal{Code: explain.Filtered, Detail: v.Said}, v.Late)
			said = v.Said
		}
		e.core.StartFailed(h, t, true, "")
		e.recordFailure(h, said, now)
		stop = e.stopped()
	})
	return stop
}

// Excluded tells of nodes that the filters refused for a pod that goes to another one.
func (e *Engine) Excluded(pod *v1.Pod, verdicts []Verdict) {
	if len(verdicts) == 0 {
		return
	}
	h := model.HolderID(pod.UID)
	e.do("excluded", func(time.Time) {
		for _, v := range verdicts {
			e.core.Refused(h, v.Node, explain.Refusal{Code: explain.Filtered, Detail: v.Said}, v.Late)
		}
	})
}

// RefusedEverywhere tells that kube-scheduler refuses a pod on every node, but for some
// when except is not nil, and takes its start back.
func (e *Engine) RefusedEverywhere(pod *v1.Pod, t engine.Ticket, said string, except []model.NodeID) (stop []model.HolderID) {
	h := model.HolderID(pod.UID)
	e.do("refused", func(now time.Time) {
		e.core.RefusedEverywhere(h, explain.Refusal{Code: explain.Filtered, Detail: said}, except)
		e.core.StartFailed(h, t, true, "")
		e.recordFailure(h, said, now)
		stop = e.stopped()
	})
	return stop
}

// Failed tells that a pod's cycle failed for reasons other than its planned node. It
// returns the members that must stop waiting for it.
func (e *Engine) Failed(pod *v1.Pod, t engine.Ticket, why string) (stop []model.HolderID) {
	e.do("failed", func(now time.Time) {
		e.core.StartFailed(model.HolderID(pod.UID), t, false, why)
		e.recordFailure(model.HolderID(pod.UID), why, now)
		stop = e.stopped()
	})
	return stop
}

// Unreachable tells that the API server could not be written to: nothing is started for
// a while, longer each time. Reachable tells that it could.
func (e *Engine) Unreachable() {
	e.do("unreachable", func(time.Time) { e.core.Suspend() })
}

// Reachable tells that a write to the API server succeeded.
func (e *Engine) Reachable() {
	if e.suspended.Load() {
		e.do("reachable", func(time.Time) { e.core.Resume() })
	}
}

// Suspended says whether the API server could not be written to, and no write has
// succeeded since. It waits for no lock.
func (e *Engine) Suspended() bool { return e.suspended.Load() }

// Gone says whether a pod that kube-scheduler counts does not exist any more, or has
// ended: it has not heard of that yet.
func (e *Engine) Gone(pod *v1.Pod) bool {
	latest, err := e.pods.Pods(pod.Namespace).Get(pod.Name)
	return err != nil || latest.UID != pod.UID || latest.Status.Phase == v1.PodSucceeded || latest.Status.Phase == v1.PodFailed
}
