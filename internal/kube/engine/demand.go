package engine

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// demands is what autoscalers are asked for. It is guarded by the engine's lock.
type demands struct {
	// on: gpu-controller carries it out.
	on bool
	// patience is how long nodes of one domain are asked for that do not come.
	patience time.Duration
	of       map[engine.ID]*wanting
	// changed: of may not be what was told.
	changed bool
	// told is what was last handed out.
	told demand.Document
}

// wanting is a gang that waits for nodes of one domain.
type wanting struct {
	pursuit   engine.Pursuit
	gang      demand.Gang
	submitted int64
}

// Autoscale makes the engine ask for nodes of the domains in which gangs lack some, and for
// those to stay that it keeps for gangs. patience is how long nodes of one domain are asked
// for that do not come.
func (e *Engine) Autoscale(patience time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.demands = demands{on: true, patience: patience, of: map[engine.ID]*wanting{}}
}

// showAs is the one word of a gang's reason that its pods show. With autoscaling, members
// are not shown as unschedulable for which placeholders stand, nor those for which pods are
// leaving already: no node is to be added for them.
func (e *Engine) showAs(id engine.ID, r *explain.Reason, now time.Time) string {
	kind := report.Kind(r)
	switch {
	case e.wants(id, r, now):
		r.Asked = e.demands.of[id].where()
		return names.ReasonWaitingForNodes
	case e.demands.on && r.Prospect.Freeing && kind == v1.PodReasonUnschedulable:
		return "WaitingForVictims"
	}
	return kind
}

// wants says whether nodes of one domain are asked for so that a gang can start that waits
// for a reason.
func (e *Engine) wants(id engine.ID, r *explain.Reason, now time.Time) bool {
	if !e.demands.on || r.Code != explain.Nodes && r.Code != explain.NoDomain || r.Prospect.Freeing {
		e.demands.drop(id)
		return false
	}
	w := e.demands.of[id]
	members, where, fixed := e.core.Shortages(id, w.pursued)
	g, there := e.core.Gang(id)
	if !there || len(members) == 0 || dialect.IsTier(g.Require.Label) { // no label brings a new node into a HyperNode
		e.demands.drop(id)
		return false
	}
	if w == nil {
		w = &wanting{submitted: g.Submitted}
	}
	asked := demand.Gang{Name: g.Name, Members: e.memberPods(members)}
	if g.Require.Depth == model.NodeDepth {
		asked.OneNode = true
	} else {
		last := w.pursuit
		if i := slices.IndexFunc(where, func(s engine.Shortage) bool { return w.pursued(&s) }); last.New() && i >= 0 {
			last = last.Into(where[i], now.UnixNano()) // the first node of a new domain came
		}
		w.pursuit = last.Next(where, fixed, now.UnixNano(), int64(e.demands.patience))
		switch {
		case w.pursuit.New() && last.New():
			asked.New = w.gang.New
		case w.pursuit.New():
			asked.New = &demand.New{Label: g.Require.Label, Not: e.core.Domains(g.Require)}
		default:
			asked.Within = labelsOf(e.Levels(), w.pursuit.Values)
		}
	}
	if len(asked.Members) == 0 || asked.New == nil && len(asked.Within) == 0 && !asked.OneNode || asked.New != nil && len(asked.New.Not) > demand.MaxNot {
		e.demands.drop(id)
		return false
	}
	e.demands.changed = e.demands.changed || !reflect.DeepEqual(w.gang, asked)
	w.gang = asked
	e.demands.of[id] = w
	return true
}

// pursued says whether nodes of a domain are asked for, or it is new while a new one is.
func (w *wanting) pursued(s *engine.Shortage) bool {
	switch {
	case w == nil:
		return false
	case w.pursuit.New():
		return s.NewTo(w.gang.New.Not)
	}
	return s.Domain == w.pursuit.Domain
}

// drop takes note that no node is missing for a gang: it starts, is gone, or waits for
// something else.
func (d *demands) drop(id engine.ID) {
	if _, there := d.of[id]; there {
		delete(d.of, id)
		d.changed = true
	}
}

// where says in words where nodes are asked for.
func (w *wanting) where() string {
	switch g := &w.gang; {
	case g.OneNode:
		return "that take all members on one"
	case g.New != nil:
		return "in a domain of " + g.New.Label + " that has none yet"
	default:
		var terms []string
		for _, label := range slices.Sorted(maps.Keys(g.Within)) {
			terms = append(terms, label+"="+g.Within[label])
		}
		return "with " + strings.Join(terms, ", ")
	}
}

// memberPods are holders as the API knows them. Pods with resource claims cannot be stood
// for: claims are of their namespace. Then there are none, and the autoscaler sees the pods
// themselves.
func (e *Engine) memberPods(members []model.HolderID) (out []demand.Member) {
	for _, h := range members {
		if m := e.work.Member(h); m != nil && m.Pod.Spec.NodeName == "" {
			if len(m.Pod.Spec.ResourceClaims) > 0 {
				return nil
			}
			out = append(out, demand.Member{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: string(m.Pod.UID)})
		}
	}
	return out
}

// labelsOf are the node labels of a domain, of which the values at each level are given.
// Tiers of HyperNodes are no labels of nodes.
func labelsOf(levels topology.Levels, values []string) map[string]string {
	out := map[string]string{}
	for i, l := range levels[:min(len(values), len(levels))] {
		if values[i] != "" && !dialect.IsTier(l.Label) {
			out[l.Label] = values[i]
		}
	}
	return out
}

// demand is what autoscalers are asked for now; nil when that is what it was.
func (e *Engine) demand(now time.Time) *demand.Document {
	if !e.demands.on {
		return nil
	}
	var d demand.Document
	for _, id := range e.core.KeptNodes() {
		if d.Kept = append(d.Kept, string(id)); len(d.Kept) == demand.MaxKept {
			break
		}
	}
	if !e.demands.changed && slices.Equal(d.Kept, e.demands.told.Kept) {
		return nil
	}
	e.demands.changed = false
	d.Gangs = e.demands.fair(demand.MaxMembers)
	e.demands.told = d
	d.At = now
	return &d
}

// fair are the gangs that nodes are asked for, not more members than a bound: namespaces
// take turns, the oldest gang of each first, so that none crowds out another.
func (d *demands) fair(most int) (out []demand.Gang) {
	by := map[string][]*wanting{}
	for _, w := range d.of { // sorted below
		namespace := w.gang.Members[0].Namespace
		by[namespace] = append(by[namespace], w)
	}
	spaces := slices.Sorted(maps.Keys(by))
	for _, list := range by {
		slices.SortFunc(list, func(a, b *wanting) int {
			return cmp.Or(cmp.Compare(a.submitted, b.submitted), cmp.Compare(a.gang.Name, b.gang.Name))
		})
	}
	for i := 0; len(spaces) > 0; i++ {
		spaces = slices.DeleteFunc(spaces, func(s string) bool { return i >= len(by[s]) })
		for _, s := range spaces {
			if g := by[s][i].gang; len(g.Members) <= most {
				out = append(out, g)
				most -= len(g.Members)
			}
		}
	}
	return out
}

// Weight says what a pod's place is worth to an autoscaler: its gang's name, whether others
// of it cannot run without the pod, and how much of devices it holds, in thousandths of one.
func (e *Engine) Weight(pod *v1.Pod) (name string, gang bool, milli int64) {
	h := model.HolderID(pod.UID)
	e.do("weight", func(time.Time) {
		if id, ok := e.core.Of(h); ok {
			g, _ := e.core.Gang(id)
			name, gang = g.Name, g.Min > 1
		}
		for _, hold := range e.core.Holding(h) {
			milli += hold.Milli
		}
	})
	return name, gang, milli
}
