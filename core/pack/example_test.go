package pack_test

import (
	"fmt"

	"github.com/tangram-dev/tangram/core/pack"
)

// Two nodes of two GPUs each, one of them with a share on it. The workload asks
// for 800 and for 200 milli, so a share of 200 belongs beside one of 800, and not
// on a GPU that could hold something larger.
func Example() {
	large := pack.Class{GPUs: 1, Milli: 800, CPU: 4000}
	small := pack.Class{GPUs: 1, Milli: 200, CPU: 1000}
	index := pack.NewIndex(pack.NewOracle([]pack.Demand{{Class: large, Count: 3}, {Class: small, Count: 3}}))

	empty := pack.Shape{CPU: 16_000, Memory: 64 << 10, GPUs: 2, Model: 1, Free: [pack.MaxGPUs]uint16{1000, 1000}}
	used := empty
	used.CPU -= 4000
	used.Free[1] = 200
	index.Set(0, pack.Order("node-a"), empty, empty)
	index.Set(1, pack.Order("node-b"), empty, used)
	index.Refresh() // the fleet is known: build the tables

	index.Arrive(&small)
	for choice := range index.Candidates(&small) {
		terms, _, _ := index.Explain(&small, choice.Ordinal)
		fmt.Printf("node %d, GPUs %b: %v\n", choice.Ordinal, choice.Devices, terms)
	}
	// Output:
	// node 1, GPUs 10: cost 2 = base 10.0 (potential 1010.0 to 1000.0); 1 of 2 GPUs unused
	// node 0, GPUs 1: cost 4 = base 20.0 (potential 2000.0 to 1980.0); 2 of 2 GPUs unused
}
