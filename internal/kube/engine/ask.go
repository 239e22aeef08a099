package engine

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Request reads what a pod asks for, under its own profile; nil when it asks for no GPU.
// An invalid annotation of its Namespace is reported there.
func (e *Engine) Request(pod *v1.Pod) (*model.Request, error) {
	return e.RequestIn(pod, e.reader.Profile(pod.Spec.SchedulerName))
}

// RequestIn is Request under another profile.
func (e *Engine) RequestIn(pod *v1.Pod, p workload.Profile) (*model.Request, error) {
	r, err := e.reader.RequestIn(pod, p)
	if r != nil && err == nil {
		e.checkNamespace(pod.Namespace)
	}
	return r, err
}

// checkNamespace reports an invalid placement annotation of a Namespace.
func (e *Engine) checkNamespace(name string) {
	_, problem := e.reader.PlacementOf(name)
	if problem == nil {
		return
	}
	ns, err := e.namespaces.Get(name)
	if err != nil {
		return
	}
	e.do("check", func(time.Time) {
		e.complain("namespace/"+name, &v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: ns.UID}, problem, "InvalidPlacement")
	})
}

// Search ranks the nodes for a request and returns up to limit of them, best first.
func (e *Engine) Search(r *model.Request, w score.Weights, limit int) (out []model.NodeID) {
	e.do("search", func(time.Time) {
		for c := range e.core.Candidates(r, w) {
			if out = append(out, c.Node); len(out) == limit {
				break
			}
		}
	})
	return out
}

// Alternatives are nodes other than the planned one on which a pod could start as well.
func (e *Engine) Alternatives(pod *v1.Pod, t engine.Ticket, limit int) (out []model.NodeID) {
	e.do("search", func(time.Time) { out = e.core.Alternatives(model.HolderID(pod.UID), t, limit) })
	return out
}

// Rate says how good a node is for a request, 0..score.Scale, term by term, as if one
// holder held nothing. A node that cannot take it rates 0.
func (e *Engine) Rate(r *model.Request, w score.Weights, id model.NodeID, without model.HolderID) (out planner.Rating) {
	e.do("rate", func(time.Time) { out = e.core.Rate(r, w, id, without) })
	return out
}

// Fit says why a node cannot take a request, or nil.
func (e *Engine) Fit(r *model.Request, id model.NodeID, t *engine.Trial) (out *explain.Refusal) {
	e.do("fit", func(time.Time) { out = e.core.Fit(r, id, t) })
	return out
}

// Reasons says why nodes' devices cannot take a request.
func (e *Engine) Reasons(r *model.Request) (out explain.Tally) {
	e.do("reasons", func(time.Time) { out = e.core.Reasons(r) })
	return out
}

// Victims names holders of lower priority that must leave a node, beside those that do
// anyway, for a request to fit there; false when that cannot help.
func (e *Engine) Victims(r *model.Request, id model.NodeID, leaving []model.HolderID) (out []model.HolderID, ok bool) {
	e.do("victims", func(time.Time) { out, ok = e.core.Victims(r, id, leaving) })
	return out, ok
}

// Assume chooses devices on a node and holds them for a pod outside of any gang.
func (e *Engine) Assume(pod *v1.Pod, r *model.Request, id model.NodeID) (out engine.Release, refusal *explain.Refusal) {
	e.do("assume", func(time.Time) { out, refusal = e.core.Assume(model.HolderID(pod.UID), r, id) })
	return out, refusal
}

// Unassume takes back what was assumed, unless the API has meanwhile confirmed it.
func (e *Engine) Unassume(pod *v1.Pod) {
	e.do("assume", func(time.Time) { e.core.Unassume(model.HolderID(pod.UID)) })
}
