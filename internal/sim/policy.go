package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tangram-dev/tangram/core/pack"
)

// policyNames are the policies one can ask for, from the floor up.
var policyNames = []string{"random", "dotprod", "clustering", "packing", "bestfit", "fgd", "tangram"}

// newChooser makes the chooser of one run, with all nodes in it.
func newChooser(name string, t *Trace, workload string, seed uint64) (chooser, error) {
	var c chooser
	switch name {
	case "random":
		c = pack.NewRandom(seed)
	case "dotprod":
		c = pack.NewIndex(pack.DotProd())
	case "clustering":
		c = pack.NewIndex(pack.Clustering())
	case "packing":
		c = pack.NewIndex(pack.Packing())
	case "bestfit":
		c = pack.NewIndex(pack.BestFit())
	case "fgd":
		// As published, it knows the workload of the trace in advance.
		c = pack.NewIndex(pack.NewFGD(pack.NewFragmentation(t.Workload(), false)))
	case "tangram":
		if workload == Oracle {
			c = pack.NewIndex(pack.NewOracle(t.Workload()))
		} else {
			c = pack.NewIndex(pack.NewPotential())
		}
	default:
		return nil, fmt.Errorf("unknown policy %q", name)
	}
	order := nodeOrder(name, t, seed)
	for i := range t.Nodes {
		c.Set(i, order[i], t.Nodes[i].Empty, t.Nodes[i].Empty)
	}
	if x, ok := c.(*pack.Index); ok {
		x.Refresh()
	}
	return c, nil
}

// nodeOrder is the last tie-break. The published protocol puts a random prefix
// before each node's name, anew for each run; Tangram has an order of its own.
func nodeOrder(policy string, t *Trace, seed uint64) []uint32 {
	order := make([]uint32, len(t.Nodes))
	if policy == "tangram" {
		for i := range t.Nodes {
			order[i] = pack.Order(t.Nodes[i].Name)
		}
		return order
	}
	for rank, node := range rand.New(rand.NewPCG(seed, orderStream)).Perm(len(order)) {
		order[node] = uint32(rank)
	}
	return order
}

// Streams of random numbers of one seed: what one thing draws must not move what
// another gets.
const (
	arrivalStream = iota + 1
	orderStream
	lifetimeStream
)
