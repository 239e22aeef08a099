package engine

import (
	"time"

	v1 "k8s.io/api/core/v1"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Request reads what a pod asks for, under its own profile; nil when it asks for no GPU.
// An invalid annotation of its Namespace is reported there. Events that have come are
// applied, so that Fit, Rate and Victims answer by them.
func (e *Engine) Request(pod *v1.Pod) (*model.Request, error) {
	return e.RequestIn(pod, e.reader.Profile(pod.Spec.SchedulerName))
}

// RequestIn is Request under another profile.
func (e *Engine) RequestIn(pod *v1.Pod, p workload.Profile) (*model.Request, error) {
	r, err := e.reader.RequestIn(pod, p)
	if r == nil || err != nil {
		return r, err
	}
	_, problem := e.reader.PlacementOf(pod.Namespace)
	e.do("request", func(d *driver, _ time.Time) {
		if ns, err := e.reader.Namespaces.Get(pod.Namespace); err == nil && problem != nil {
			d.complaints.Set("namespace/"+ns.Name, namespaceRef(ns), problem, "InvalidPlacement")
		}
	})
	return r, nil
}

// read reads core under the lock, as of the events that the last call has applied: a cycle
// asks about many nodes, and has them applied once, with its Request.
func (e *Engine) read(what string, f func(*engine.Engine)) {
	e.mu.Lock()
	e.observer.LockHeld(what, under(e.mu.Unlock, func() { f(e.driver.core) }))
}

// Search ranks the nodes for a request and returns up to limit of them, best first.
func (e *Engine) Search(r *model.Request, w score.Weights, limit int) (out []model.NodeID) {
	e.do("search", func(d *driver, _ time.Time) {
		for c := range d.core.Nodes.Candidates(r, w) {
			if out = append(out, c.Node); len(out) == limit {
				break
			}
		}
	})
	return out
}

// Rate says how good a node is for a request, 0..score.Scale, term by term, as if one
// holder held nothing. A node that cannot take it rates 0.
func (e *Engine) Rate(r *model.Request, w score.Weights, id model.NodeID, without model.HolderID) (out planner.Rating) {
	e.read("rate", func(core *engine.Engine) { out = core.Nodes.Rate(r, w, id, without) })
	return out
}

// Fit says why a node cannot take a request, or nil.
func (e *Engine) Fit(r *model.Request, id model.NodeID, t *coreanswer.Trial) (out *explain.Refusal) {
	e.read("fit", func(core *engine.Engine) { out = core.Nodes.Fit(r, id, t) })
	return out
}

// Reasons says why nodes' devices cannot take a request.
func (e *Engine) Reasons(r *model.Request) (out explain.Tally) {
	e.do("reasons", func(d *driver, _ time.Time) { out = d.core.Reasons.Reasons(r) })
	return out
}

// Victims names pods that must leave a node for a pod of another scheduler, beside those that
// this one has chosen; false when the rules of preemption keep one of them, or when no eviction
// helps.
func (e *Engine) Victims(pod *v1.Pod, r *model.Request, id model.NodeID, chosen []model.HolderID) (out []model.HolderID, ok bool) {
	gang := engine.Gang{
		ID: engine.ID("preemptor/" + pod.UID), Name: pod.Namespace + "/" + pod.Name, Namespace: pod.Namespace,
		Queue: dialect.NamedQueue(pod), Priority: r.Priority,
		NeverPreempts: pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever,
	}
	e.read("victims", func(core *engine.Engine) { out, ok = core.Nodes.Victims(&gang, r, id, chosen) })
	return out, ok
}

// Assume chooses devices on a node and holds them for a pod outside of any gang.
func (e *Engine) Assume(pod *v1.Pod, r *model.Request, id model.NodeID) (out Release, refusal *explain.Refusal) {
	e.do("assume", func(d *driver, _ time.Time) {
		given := d.tell(engine.Assumed{Holder: model.HolderID(pod.UID), Request: r, Node: id})
		out, refusal = given.Release, given.Refusal
	})
	return out, refusal
}

// Unassume takes back what was assumed, unless the API has meanwhile confirmed it.
func (e *Engine) Unassume(pod *v1.Pod) {
	e.do("assume", func(d *driver, _ time.Time) { d.tell(engine.Unassumed{Holder: model.HolderID(pod.UID)}) })
}
