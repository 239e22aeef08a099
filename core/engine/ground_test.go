package engine_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestSearchByGrounds: victims are found by looking at a few nodes at a time whenever
// they are found by looking at all, also where the count of devices misleads because
// other resources are short.
func TestSearchByGrounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const count, gpus = 24, 4
		host := nodes(count, gpus)
		for _, n := range host {
			n.Host = model.Host{CPU: int64(rapid.SampledFrom([]int{8_000, 64_000}).Draw(rt, "cpu")), Memory: 1 << 40}
		}
		sizes := make([]int, count*gpus/2)
		for i := range sizes {
			sizes[i] = rapid.IntRange(1, gpus).Draw(rt, "gpus")
		}
		members, wants := rapid.IntRange(1, 3).Draw(rt, "members"), rapid.IntRange(1, gpus).Draw(rt, "wants")
		cpu := int64(rapid.SampledFrom([]int{0, 32_000}).Draw(rt, "asked cpu"))
		evicts := func(ground int) bool {
			o := options()
			o.Ground = ground
			w := newWorld(t, o, nil, host...)
			for i, n := range sizes {
				w.submit(simple(fmt.Sprintf("low%03d", i), 1, n))
			}
			for w.decide().More {
			}
			w.now += second
			big := urgent("big", members, wants)
			r := *coretest.Request(wants)
			r.Host.CPU = cpu
			big.Roles[0].Request = &r
			w.submit(big)
			for range 1000 {
				d := w.decide()
				if len(d.Evicts) > 0 || len(d.Starts) > 0 {
					return true
				}
				if !d.More {
					return false
				}
			}
			rt.Fatal("it never ends")
			return false
		}
		if few, all := evicts(2), evicts(1000); few != all {
			rt.Fatalf("found by looking at all: %v; at a few at a time: %v", all, few)
		}
	})
}
