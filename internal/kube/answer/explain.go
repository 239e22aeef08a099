package answer

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// runnersUp is how many other nodes are rated.
const runnersUp = 5

// Explain says why a pod is where it is; a problem says why that cannot be told. The caller
// must be allowed to list the pods of the namespace; without the right to list nodes, other
// nodes are counted.
func (a *Answers) Explain(namespace, name string, see Sight) (out apiquery.Explain, problem string) {
	out = apiquery.Explain{At: a.Clock(), Devices: []apiquery.Part{}, Terms: []apiquery.Term{}, RunnersUp: []apiquery.RunnerUp{}}
	var merits coreanswer.Merits
	gang := false // of several members
	a.lookFor(see, "explain", func(v *View) {
		pod, err := a.Pods.Pods(namespace).Get(name)
		if err != nil {
			problem = fmt.Sprintf("there is no pod %s/%s that has not ended", namespace, name)
			return
		}
		h := model.HolderID(pod.UID)
		if !a.Gate.Owns(pod.Spec.SchedulerName) {
			problem = fmt.Sprintf("pod %s/%s is placed by another scheduler: %s", namespace, name, pod.Spec.SchedulerName)
			return
		}
		var placed bool
		if merits, placed = a.meritsOf(v, h); !placed {
			problem = fmt.Sprintf("pod %s/%s has no place that the planner chose: why says what it waits for", namespace, name)
			return
		}
		out.Pod = observe.PodRef(pod)
		if id, ok := v.Core.Gangs.Of(h); ok {
			g, _ := v.Core.Gangs.Gang(id)
			out.Gang, gang = observe.GangRef(&g), g.Min > 1
		}
		out.Devices = append(out.Devices, v.parts(h)...)
		out.Decided = decided(pod)
		out.Node = string(merits.Node)
	})
	if problem != "" {
		return out, problem
	}
	out.Terms, out.Total = terms(&merits.Rating, merits.Weights), total(&merits.Rating)
	out.Fleet = fleetTerms(&merits.Rating.Fleet)
	out.Note = note(&merits, gang)
	nodes := see.MayListNodes()
	if !nodes {
		out.Hidden = len(merits.Others)
		merits.Others = nil
		if out.Decided == nil {
			out.Node, out.Devices = "", []apiquery.Part{} // the pod does not name them yet
		}
	}
	for _, o := range merits.Others {
		out.RunnersUp = append(out.RunnersUp, apiquery.RunnerUp{Node: string(o.Node), Total: total(&o.Rating), Terms: terms(&o.Rating, merits.Weights)})
	}
	out.Refused, out.Fit = causes(&merits.Refused, nodes), merits.Refused.Fit()
	return out, ""
}

// note says what else has to be known of a pod's place. That other nodes score higher is the
// first thing that a reader of the scores asks about. gang: it came with others.
func note(m *coreanswer.Merits, gang bool) string {
	switch {
	case m.Refusal != nil:
		return "Its node would not take it now: it has " + m.Refusal.String() + "."
	case len(m.Others) == 0 || total(&m.Others[0].Rating) <= total(&m.Rating):
		return ""
	case gang:
		return "Other nodes score higher for this pod alone: a gang is placed as a whole, where all of its members have a place together."
	}
	return "Other nodes score higher now: pods have come or gone since it was placed."
}

// decided is when a pod was bound; nil when it is not yet.
func decided(pod *v1.Pod) *time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			at := c.LastTransitionTime.Time
			return &at
		}
	}
	return nil
}

// terms are the objectives of a rating, in their order; those that do not count are left
// out.
func terms(r *planner.Rating, w score.Weights) []apiquery.Term {
	out := []apiquery.Term{}
	for o := range score.NumObjectives {
		if w[o] > 0 {
			out = append(out, apiquery.Term{Name: o.String(), Score: r.Card[o], Weight: w[o]})
		}
	}
	return out
}

// total is a rating's total from 0 to 100.
func total(r *planner.Rating) int { return (r.Total + score.Scale/200) / (score.Scale / 100) }

// fleetTerms are the terms of the fragmentation objective that are not 0, in micro-GPU.
func fleetTerms(t *pack.Terms) map[string]int64 {
	out := map[string]int64{"potentialBefore": t.Before, "potentialAfter": t.After, "base": t.Base(), "costMilliGPU": int64(t.Cost) * pack.StepMilli}
	if t.Model != 0 {
		out["scarceModel"] = t.Model
	}
	for i, size := range pack.GroupSizes() {
		if t.Slots[i] != 0 {
			out[fmt.Sprintf("brokenGroupOf%d", size)] = t.Slots[i]
		}
		if t.Links[i] != 0 {
			out[fmt.Sprintf("unlinkedGroupOf%d", size)] = t.Links[i]
		}
	}
	return out
}

// starts is how an expected start is known, as it travels.
var starts = map[coreanswer.Knowledge]string{
	coreanswer.Now: apiquery.StartsNow, coreanswer.Reserved: apiquery.StartsReserved,
	coreanswer.Foreseen: apiquery.StartsForecast, coreanswer.NotEver: apiquery.StartsNever,
}
