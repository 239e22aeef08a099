package sim

import (
	"strconv"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
)

// cluster is the fleet of a replay: the engine that schedules pods in a real cluster, and
// the measures of a run beside it.
type cluster struct {
	trace    *Trace
	engine   *engine.Engine
	planner  *planner.Planner
	requests []model.Request // by pod of the trace
	ordinal  map[model.NodeID]int

	shapes []pack.Shape // by node of the trace, as they are now
	meters []*meter
	idle   int64 // milli
	asked  int64 // gangs so far, to name the next; also the engine's time
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
		trace:   t,
		ordinal: make(map[model.NodeID]int, len(t.Nodes)),
		shapes:  make([]pack.Shape, len(t.Nodes)),
		idle:    t.Capacity(),
	}
	order := nodeOrder(policy, t, seed)
	l := ledger.New()
	c.planner = planner.NewWith(l, ranking, func(id model.NodeID) uint32 { return order[c.ordinal[id]] })
	tree, err := arbiter.NewTree(nil, nil)
	if err != nil {
		return nil, err
	}
	c.engine = engine.New(l, c.planner, tree, plainOptions())
	for i := range t.Models[1:] { // numbers as in the trace, since a told workload has those
		d := t.device(pack.ModelID(i+1), 0)
		c.planner.Know(&d)
	}
	for i := range t.Nodes {
		n := t.inventory(i)
		c.ordinal[n.ID] = i
		if err := c.engine.Apply(0, engine.NodeSet{Node: n}).Err; err != nil {
			return nil, err
		}
	}
	c.engine.Apply(0, engine.FleetCounted{})
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
	gang engine.ID
	node int // of the trace
	pod  int
}

// arrive announces a pod of the trace, from which the planner learns the mix.
func (c *cluster) arrive(pod int) {
	c.engine.Apply(c.asked, engine.Arrived{Request: &c.requests[pod]})
}

// start places a pod of the trace, if it fits anywhere: a gang of one, which is withdrawn if the
// step does not start it.
func (c *cluster) start(pod int) (held, bool) {
	c.asked++
	name := strconv.FormatInt(c.asked, 36)
	g := engine.Gang{ID: engine.ID(name), Queue: arbiter.Default, Submitted: c.asked, Min: 1, Roles: []engine.Role{{
		Name: "pod", Request: &c.requests[pod], Min: 1, Members: []model.HolderID{model.HolderID(name)}}}}
	if err := c.engine.Apply(c.asked, engine.Submitted{Gang: g}).Err; err != nil {
		panic(err) // the gang is made above, of a request that the trace's reader has checked
	}
	plan := c.engine.Step(c.asked)
	if len(plan.Starts) == 0 {
		c.engine.Apply(c.asked, engine.Withdrawn{Gang: g.ID})
		return held{}, false
	}
	h := held{g.ID, c.ordinal[plan.Starts[0].Plan.Placements[0].Node], pod}
	c.idle -= c.trace.Pods[pod].Class.Demand()
	c.look(h.node)
	return h, true
}

// end removes a pod.
func (c *cluster) end(h held) {
	c.engine.Apply(c.asked, engine.Withdrawn{Gang: h.gang})
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
