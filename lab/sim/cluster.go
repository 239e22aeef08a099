package sim

import (
	"strconv"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// cluster is the fleet of a replay: the ledger and the planner that schedule pods
// in a real cluster, and the measures of a run beside them.
type cluster struct {
	trace    *Trace
	ledger   *ledger.Ledger
	planner  *planner.Planner
	weights  score.Weights
	requests []model.Request // by pod of the trace
	ordinal  map[model.NodeID]int

	shapes []pack.Shape // by node of the trace, as they are now
	meters []*meter
	idle   int64  // milli
	placed uint64 // holders so far, to name the next
}

// meter keeps a fragmentation measure of the fleet.
type meter struct {
	f     *Fragmentation
	each  []float64
	total float64
}

// newCluster is the unused fleet of a trace, under a policy.
func newCluster(t *Trace, policy, workload string, seed uint64, measures ...*Fragmentation) (*cluster, error) {
	ranking, err := newRanking(policy, t, workload, seed)
	if err != nil {
		return nil, err
	}
	c := &cluster{
		trace: t, ledger: ledger.New(), weights: score.DefaultWeights(),
		ordinal: make(map[model.NodeID]int, len(t.Nodes)),
		shapes:  make([]pack.Shape, len(t.Nodes)),
		idle:    t.Capacity(),
	}
	order := nodeOrder(policy, t, seed)
	c.planner = planner.NewWith(c.ledger, ranking, func(id model.NodeID) uint32 { return order[c.ordinal[id]] })
	for i := range t.Models[1:] { // numbers as in the trace, since a told workload has those
		d := t.device(pack.ModelID(i+1), 0)
		c.planner.Know(&d)
	}
	for i := range t.Nodes {
		n := t.inventory(i)
		c.ordinal[n.ID] = i
		if err := c.ledger.SetNode(n); err != nil {
			return nil, err
		}
	}
	for i := range t.Pods {
		c.requests = append(c.requests, t.request(i))
	}
	for i := range t.Nodes {
		c.shapes[i], _ = c.planner.Shape(model.NodeID(t.Nodes[i].Name))
	}
	for _, f := range measures {
		m := &meter{f: f, each: make([]float64, len(t.Nodes))}
		for i := range c.shapes {
			m.each[i] = f.Of(&c.shapes[i])
			m.total += m.each[i]
		}
		c.meters = append(c.meters, m)
	}
	return c, nil
}

// held is a pod that runs.
type held struct {
	holder model.HolderID
	node   int // of the trace
	pod    int
}

// arrive announces a pod of the trace, from which the planner learns the mix.
func (c *cluster) arrive(pod int) { c.planner.Arrive(&c.requests[pod]) }

// start places a pod of the trace, if it fits anywhere.
func (c *cluster) start(pod int) (held, bool) {
	r := &c.requests[pod]
	found, ok := c.planner.Best(r, c.weights)
	if !ok {
		return held{}, false
	}
	c.placed++
	h := held{model.HolderID(strconv.FormatUint(c.placed, 36)), c.ordinal[found.Node], pod}
	v, _ := c.ledger.View(found.Node)
	c.ledger.Put(found.Node, found.Grant.Claim(h.holder, r, v.Node))
	c.idle -= c.trace.Pods[pod].Class.Demand()
	c.look(h.node)
	return h, true
}

// end removes a pod.
func (c *cluster) end(h held) {
	c.ledger.Drop(h.holder)
	c.idle += c.trace.Pods[h.pod].Class.Demand()
	c.look(h.node)
}

// look updates the measures after a node changed.
func (c *cluster) look(node int) {
	c.shapes[node], _ = c.planner.Shape(model.NodeID(c.trace.Nodes[node].Name))
	for _, m := range c.meters {
		now := m.f.Of(&c.shapes[node])
		m.total += now - m.each[node]
		m.each[node] = now
	}
}
