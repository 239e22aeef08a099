package memo

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Vetoes are nodes that kube-scheduler's filters refused for a shape although a plan wanted
// them. A veto holds until the node changes or for a while, which doubles each time until
// the node takes a pod of the shape; a refusal for a pod that has ended, of which
// kube-scheduler has not heard yet, is not counted. Shapes are per namespace, so what one
// tenant's pods are refused does not keep another's off.
type Vetoes struct {
	shapes map[model.Shape]*shapeVetoes
	// timing says how long vetoes hold; the number of strikes is remembered as long again as
	// the longest.
	timing *Timing
	// byNode finds the shapes with a veto on a node.
	byNode map[model.NodeID]map[model.Shape]bool
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

func newVetoes(timing *Timing) Vetoes {
	return Vetoes{timing: timing, shapes: map[model.Shape]*shapeVetoes{}, byNode: map[model.NodeID]map[model.Shape]bool{}}
}

// Refusal is what holds against a shape on a node now, or nil.
func (v *Vetoes) Refusal(s model.Shape, node model.NodeID, now int64) *explain.Refusal {
	if len(v.shapes) == 0 {
		return nil
	}
	sv := v.shapes[s]
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

// Everywhere is what holds against a shape on all nodes now, or nil.
func (v *Vetoes) Everywhere(s model.Shape, now int64) *explain.Refusal {
	if sv := v.shapes[s]; sv != nil && now < sv.everywhere.until && sv.except == nil {
		return &sv.everywhere.why
	}
	return nil
}

// AnyVeto says whether there is any veto.
func (v *Vetoes) AnyVeto() bool { return len(v.shapes) > 0 }

func (v *Vetoes) shape(s model.Shape) *shapeVetoes {
	sv := v.shapes[s]
	if sv == nil {
		sv = &shapeVetoes{nodes: map[model.NodeID]veto{}}
		v.shapes[s] = sv
	}
	return sv
}

// strike is a veto once more.
func (x veto) strike(why explain.Refusal, late bool, now int64, b Backoff) veto {
	x.why = why
	pause := int64(b.First)
	if !late {
		pause = b.After(x.strikes)
		x.strikes++
	}
	x.until = now + pause
	return x
}

// Veto notes that a node refused a shape.
func (v *Vetoes) Veto(s model.Shape, node model.NodeID, why explain.Refusal, late bool, now int64) (until int64) {
	sv := v.shape(s)
	x := sv.nodes[node].strike(why, late, now, v.timing.Veto)
	sv.nodes[node] = x
	v.list(s, node)
	return x.until
}

// list makes a veto be found by its node.
func (v *Vetoes) list(s model.Shape, node model.NodeID) {
	if v.byNode[node] == nil {
		v.byNode[node] = map[model.Shape]bool{}
	}
	v.byNode[node][s] = true
}

// VetoEverywhere notes that every node would refuse a shape, but for some when
// except is not nil.
func (v *Vetoes) VetoEverywhere(s model.Shape, why explain.Refusal, except map[model.NodeID]bool, now int64) (until int64) {
	sv := v.shape(s)
	strikes := sv.everywhere.strikes
	sv.everywhere = sv.everywhere.strike(why, false, now, v.timing.Veto)
	sv.everywhere.until = now + Backoff{v.timing.VetoEverywhere, v.timing.Veto.Most}.After(strikes)
	if sv.except = except; except != nil { // where its volumes are does not change soon
		sv.everywhere.until = now + int64(v.timing.Veto.Most)
	}
	return sv.everywhere.until
}

// Took notes that a node took a pod of a shape. On which nodes alone it may run is
// still true: other members may fail.
func (v *Vetoes) Took(s model.Shape, node model.NodeID) {
	sv := v.shapes[s]
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

// LiftVetoes ends all vetoes on a node, and says whether there were any.
func (v *Vetoes) LiftVetoes(node model.NodeID) bool {
	shapes := v.byNode[node]
	for s := range shapes { // each on its own
		delete(v.shapes[s].nodes, node)
		v.tidy(s)
	}
	delete(v.byNode, node)
	return len(shapes) > 0
}

// expire forgets vetoes that ended long ago. Cost: the number of vetoes.
func (v *Vetoes) expire(now int64) {
	for s, sv := range v.shapes { // each on its own
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

func (v *Vetoes) unlist(s model.Shape, node model.NodeID) {
	if delete(v.byNode[node], s); len(v.byNode[node]) == 0 {
		delete(v.byNode, node)
	}
}

func (v *Vetoes) tidy(s model.Shape) {
	if sv := v.shapes[s]; sv != nil && len(sv.nodes) == 0 && sv.everywhere == (veto{}) {
		delete(v.shapes, s)
	}
}
