package engine_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/test/coretest"
)

// What it costs to find victims in a cluster full of small pods.
func BenchmarkEvict(b *testing.B) {
	one := urgent("u", 8, 8)
	two := urgent("u", 4, 8)
	two.Roles = append(two.Roles, engine.Role{Name: "more", Request: coretest.Request(3), Members: holders("u", 10, 16), Min: 6})
	two.Min += 6
	part := urgent("u", 6, 1)
	part.Roles[0].Request = share(500)
	for name, g := range map[string]engine.Gang{"one role": one, "two roles": two, "shares": part} {
		for _, count := range []int{100, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, count), func(b *testing.B) {
				w := newWorld(b, options(), nil, nodes(count, 8)...)
				w.fill(8*count, 1)
				b.ResetTimer()
				for range b.N {
					w.submit(g)
					d := w.e.Decide(w.now)
					for d.More && len(d.Evicts) == 0 {
						d = w.e.Decide(w.now)
					}
					if len(d.Evicts) != 1 {
						b.Fatal("no victims")
					}
					b.ReportMetric(float64(len(d.Evicts[0].Members)), "members")
					b.StopTimer()
					for _, h := range d.Evicts[0].Members {
						w.e.EvictionRefused(h)
					}
					w.withdraw("u")
					b.StartTimer()
				}
			})
		}
	}
}
