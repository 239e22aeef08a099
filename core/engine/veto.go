package engine

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// vetoes are nodes that kube-scheduler's filters refused for a shape although a plan
// wanted them: what core cannot know must not be planned again at once. A veto holds
// until the node changes or for a while, whatever comes first. The first one is short,
// each further one twice as long, until the node takes a pod of the shape. While
// kube-scheduler has only not heard yet what the ledger has (a pod that ended), it is
// not counted. Vetoes are per shape, and shapes are per namespace, so what one tenant's
// pods are refused does not keep another's off.
type vetoes struct {
	of map[Shape]*shapeVetoes
	// timing says how long vetoes hold; the number of strikes is remembered as long again as
	// the longest.
	timing *Timing
	// byNode finds the shapes with a veto on a node.
	byNode map[model.NodeID]map[Shape]bool
}

// shapeVetoes are what holds against one shape.
type shapeVetoes struct {
	nodes map[model.NodeID]veto
	// everywhere: every node would refuse it, but for those in except when that is not
	// nil.
	everywhere veto
	except     map[model.NodeID]bool
}

type veto struct {
	why     explain.Refusal
	until   int64
	strikes int
}

func newVetoes() vetoes {
	return vetoes{of: map[Shape]*shapeVetoes{}, byNode: map[model.NodeID]map[Shape]bool{}}
}

// refusal is what holds against a shape on a node now, or nil.
func (v *vetoes) refusal(s Shape, node model.NodeID, now int64) *explain.Refusal {
	if len(v.of) == 0 {
		return nil
	}
	sv := v.of[s]
	if sv == nil {
		return nil
	}
	if x := sv.nodes[node]; now < x.until {
		return &x.why
	}
	if now < sv.everywhere.until && !sv.except[node] {
		return &sv.everywhere.why
	}
	return nil
}

// everywhere is what holds against a shape on all nodes now, or nil.
func (v *vetoes) everywhere(s Shape, now int64) *explain.Refusal {
	if sv := v.of[s]; sv != nil && now < sv.everywhere.until && sv.except == nil {
		return &sv.everywhere.why
	}
	return nil
}

func (v *vetoes) shape(s Shape) *shapeVetoes {
	sv := v.of[s]
	if sv == nil {
		sv = &shapeVetoes{nodes: map[model.NodeID]veto{}}
		v.of[s] = sv
	}
	return sv
}

// strike is a veto once more.
func (x veto) strike(why explain.Refusal, late bool, now int64, b Backoff) veto {
	x.why = why
	pause := int64(b.First)
	if !late {
		pause = b.after(x.strikes)
		x.strikes++
	}
	x.until = now + pause
	return x
}

// add takes note that a node refused a shape.
func (v *vetoes) add(s Shape, node model.NodeID, why explain.Refusal, late bool, now int64) (until int64) {
	sv := v.shape(s)
	x := sv.nodes[node].strike(why, late, now, v.timing.Veto)
	sv.nodes[node] = x
	if v.byNode[node] == nil {
		v.byNode[node] = map[Shape]bool{}
	}
	v.byNode[node][s] = true
	return x.until
}

// addEverywhere takes note that every node would refuse a shape, but for some when
// except is not nil.
func (v *vetoes) addEverywhere(s Shape, why explain.Refusal, except map[model.NodeID]bool, now int64) (until int64) {
	sv := v.shape(s)
	strikes := sv.everywhere.strikes
	sv.everywhere = sv.everywhere.strike(why, false, now, v.timing.Veto)
	sv.everywhere.until = now + Backoff{v.timing.VetoEverywhere, v.timing.Veto.Most}.after(strikes)
	if sv.except = except; except != nil { // where its volumes are does not change soon
		sv.everywhere.until = now + int64(v.timing.Veto.Most)
	}
	return sv.everywhere.until
}

// took takes note that a node took a pod of a shape. On which nodes alone it may run is
// still true: other members may fail.
func (v *vetoes) took(s Shape, node model.NodeID) {
	sv := v.of[s]
	if sv == nil {
		return
	}
	delete(sv.nodes, node)
	v.unlist(s, node)
	if sv.except == nil {
		sv.everywhere = veto{}
	}
	v.tidy(s)
}

// nodeChanged ends all vetoes on a node, and says whether there were any.
func (v *vetoes) nodeChanged(node model.NodeID) bool {
	shapes := v.byNode[node]
	for s := range shapes { // each on its own
		delete(v.of[s].nodes, node)
		v.tidy(s)
	}
	delete(v.byNode, node)
	return len(shapes) > 0
}

// expire forgets vetoes that ended long ago. Cost: the number of vetoes.
func (v *vetoes) expire(now int64) {
	for s, sv := range v.of { // each on its own
		for node, x := range sv.nodes {
			if x.until+int64(v.timing.Veto.Most) < now {
				delete(sv.nodes, node)
				v.unlist(s, node)
			}
		}
		if sv.everywhere.until+int64(v.timing.Veto.Most) < now {
			sv.everywhere, sv.except = veto{}, nil
		}
		v.tidy(s)
	}
}

func (v *vetoes) unlist(s Shape, node model.NodeID) {
	if delete(v.byNode[node], s); len(v.byNode[node]) == 0 {
		delete(v.byNode, node)
	}
}

func (v *vetoes) tidy(s Shape) {
	if sv := v.of[s]; sv != nil && len(sv.nodes) == 0 && sv.everywhere == (veto{}) {
		delete(v.of, s)
	}
}

// Refused tells that kube-scheduler's filters refused a planned node for a member, and
// what they said; late when they judged by pods that are gone.
func (e *Engine) Refused(h model.HolderID, node model.NodeID, why explain.Refusal, late bool) {
	if r := e.roleOf(h); r != nil {
		e.wakeAt(e.vetoes.add(r.Shape, node, why, late, e.now))
		e.note(h, why, late)
	}
}

// RefusedEverywhere tells that kube-scheduler's filters refuse a member on every node,
// but for some when except is not nil (the nodes its volumes are on).
func (e *Engine) RefusedEverywhere(h model.HolderID, why explain.Refusal, except []model.NodeID) {
	r := e.roleOf(h)
	if r == nil {
		return
	}
	var some map[model.NodeID]bool
	if except != nil {
		some = map[model.NodeID]bool{}
		for _, n := range except {
			some[n] = true
		}
	}
	e.wakeAt(e.vetoes.addEverywhere(r.Shape, why, some, e.now))
	e.note(h, why, false)
}

// Took tells that kube-scheduler's filters let a member onto a node.
func (e *Engine) Took(h model.HolderID, node model.NodeID) {
	if r := e.roleOf(h); r != nil && len(e.vetoes.of) > 0 {
		e.vetoes.took(r.Shape, node)
	}
}

// NodeRulesChanged tells that a node may take what it refused before: its labels,
// taints or cordon changed, or what filters look at there.
func (e *Engine) NodeRulesChanged(node model.NodeID) {
	e.vetoes.nodeChanged(node)
	e.Changed()
}

// note remembers what was last said of a gang's planned place.
func (e *Engine) note(h model.HolderID, why explain.Refusal, late bool) {
	if k := e.gangOf(h); k != nil && !late {
		k.lastRefusal = why.Detail
	}
}

// roleOf is the role of a holder; nil when it is in no gang.
func (e *Engine) roleOf(h model.HolderID) *Role {
	if k := e.gangOf(h); k != nil {
		return &k.Roles[e.of[h].role]
	}
	return nil
}
