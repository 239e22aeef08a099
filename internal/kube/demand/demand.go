package demand

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	api "github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Demands is what autoscalers are asked for; nothing before Enable. Not safe for concurrent
// use: the engine calls it under its lock.
type Demands struct {
	core     coreanswer.Answers
	work     *workload.Gangs
	levels   func() topology.Levels
	enabled  bool          // gpu-controller carries demands out
	patience time.Duration // how long nodes of one domain are asked for that do not come
	gangs    map[engine.ID]*wanting
	// changed: gangs may differ from what was last handed out (told).
	changed bool
	told    api.Document
}

// wanting is a gang that waits for nodes of one domain.
type wanting struct {
	pursuit   coreanswer.Pursuit
	gang      api.Gang
	submitted int64
}

// New returns a Demands that asks for nothing.
func New(core coreanswer.Answers, work *workload.Gangs, levels func() topology.Levels) *Demands {
	return &Demands{core: core, work: work, levels: levels}
}

// Enable makes demands be computed. patience is how long nodes of one domain are asked for
// that do not come.
func (d *Demands) Enable(patience time.Duration) {
	d.enabled, d.patience, d.gangs, d.changed, d.told = true, patience, map[engine.ID]*wanting{}, false, api.Document{}
}

// Kind is the one word of a gang's reason that its pods show. With autoscaling, members for
// which placeholders stand are not shown as unschedulable, nor those for which pods are
// leaving already: no node is to be added for them.
func (d *Demands) Kind(id engine.ID, r *explain.Reason, now time.Time) string {
	kind := r.Condition()
	switch {
	case d.asks(id, r, now):
		r.Asked = d.Where(id)
		return names.ReasonWaitingForNodes
	case d.enabled && r.Prospect.Freeing && kind == v1.PodReasonUnschedulable:
		return "WaitingForVictims"
	}
	return kind
}

// asks says whether nodes of one domain are asked for so that a gang that waits for a reason
// can start.
func (d *Demands) asks(id engine.ID, r *explain.Reason, now time.Time) bool {
	if !d.enabled || r.Code != explain.Nodes && r.Code != explain.NoDomain || r.Prospect.Freeing {
		d.Drop(id)
		return false
	}
	w := d.gangs[id]
	members, where, fixed := d.core.Shortages.Of(id, w.pursued)
	g, there := d.core.Gangs.Gang(id)
	if !there || len(members) == 0 || dialect.IsTier(g.Require.Label) { // no label brings a new node into a HyperNode
		d.Drop(id)
		return false
	}
	if w == nil {
		w = &wanting{submitted: g.Submitted}
	}
	asked := api.Gang{Name: g.Name, Members: d.pods(members)}
	if g.Require.Depth == model.NodeDepth {
		asked.OneNode = true
	} else {
		last := w.pursuit
		if i := slices.IndexFunc(where, func(s coreanswer.Shortage) bool { return w.pursued(&s) }); last.New() && i >= 0 {
			last = last.Into(where[i], now.UnixNano()) // the first node of a new domain came
		}
		w.pursuit = last.Next(where, fixed, now.UnixNano(), int64(d.patience))
		switch {
		case w.pursuit.New() && last.New():
			asked.New = w.gang.New
		case w.pursuit.New():
			asked.New = &api.New{Label: g.Require.Label, Not: d.core.Shortages.Domains(g.Require)}
		default:
			asked.Within = labelsOf(d.levels(), w.pursuit.Values)
		}
	}
	if len(asked.Members) == 0 || asked.New == nil && len(asked.Within) == 0 && !asked.OneNode || asked.New != nil && len(asked.New.Not) > api.MaxNot {
		d.Drop(id)
		return false
	}
	d.changed = d.changed || !reflect.DeepEqual(w.gang, asked)
	w.gang = asked
	d.gangs[id] = w
	return true
}

// pursued says whether nodes of a domain are asked for, or it is new while a new one is.
func (w *wanting) pursued(s *coreanswer.Shortage) bool {
	switch {
	case w == nil:
		return false
	case w.pursuit.New():
		return s.NewTo(w.gang.New.Not)
	}
	return s.Domain == w.pursuit.Domain
}

// Drop withdraws what is asked for a gang: it starts, is gone, or waits for something else
// than nodes.
func (d *Demands) Drop(id engine.ID) {
	if _, there := d.gangs[id]; there {
		delete(d.gangs, id)
		d.changed = true
	}
}

// Where says in words where nodes are asked for so that a gang can start; empty when none
// are.
func (d *Demands) Where(id engine.ID) string {
	w := d.gangs[id]
	if w == nil {
		return ""
	}
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

// pods are members as the API knows them. No placeholder can stand for a pod with
// ResourceClaims, which are of the pod's namespace: then there are none, and the autoscaler
// sees the pods themselves.
func (d *Demands) pods(members []model.HolderID) (out []api.Member) {
	for _, h := range members {
		if m := d.work.Member(h); m != nil && m.Pod.Spec.NodeName == "" {
			if len(m.Pod.Spec.ResourceClaims) > 0 {
				return nil
			}
			out = append(out, api.Member{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: string(m.Pod.UID)})
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

// Document is what autoscalers are asked for now; nil when that has not changed.
func (d *Demands) Document(now time.Time) *api.Document {
	if !d.enabled {
		return nil
	}
	var doc api.Document
	for _, id := range d.core.Nodes.KeptNodes() {
		if doc.Kept = append(doc.Kept, string(id)); len(doc.Kept) == api.MaxKept {
			break
		}
	}
	if !d.changed && slices.Equal(doc.Kept, d.told.Kept) {
		return nil
	}
	d.changed = false
	doc.Gangs = d.fair(api.MaxMembers)
	d.told = doc
	doc.At = now
	return &doc
}

// fair are the gangs that nodes are asked for, with at most so many members in all:
// namespaces take turns, the oldest gang of each first, so that none crowds out another.
func (d *Demands) fair(most int) (out []api.Gang) {
	by := map[string][]*wanting{}
	for _, w := range d.gangs { // sorted below
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
