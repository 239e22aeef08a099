package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
)

// packPolicyNames are the policies that can be compared, from the floor up.
var packPolicyNames = []string{"random", "dotprod", "clustering", "packing", "bestfit", "fgd", "tangram"}

// newRanking is a policy's way to rank nodes.
func newRanking(name string, t *Trace, workload string, seed uint64) (planner.Ranking, error) {
	switch name {
	case "random":
		return NewRandom(seed), nil
	case "dotprod":
		return pack.NewIndex(DotProd()), nil
	case "clustering":
		return pack.NewIndex(Clustering()), nil
	case "packing":
		return pack.NewIndex(Packing()), nil
	case "bestfit":
		return pack.NewIndex(BestFit()), nil
	case "fgd":
		// As published, it knows the workload of the trace in advance.
		return pack.NewIndex(NewFGD(NewFragmentation(t.Workload(), false))), nil
	case "tangram":
		if workload == Oracle {
			return pack.NewIndex(pack.NewOracle(t.Workload())), nil
		}
		return pack.NewIndex(pack.NewPotential()), nil
	}
	return nil, fmt.Errorf("unknown policy %q", name)
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
