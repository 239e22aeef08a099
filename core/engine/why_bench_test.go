package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/test/coretest"
)

// BenchmarkWhy is what one question "why" costs at 1,000 nodes, 7,000 running pods and 5,000
// that wait and fit nowhere, each of another kind: in all, and by the parts for which
// the adapter holds its lock.
func BenchmarkWhy(b *testing.B) {
	w := newWorld(b, options(), nil, nodes(1000, 8)...)
	for i := range 7000 {
		g := simple(fmt.Sprintf("r%d", i), 1, 1)
		g.Runtime = time.Hour
		if err := w.e.Submit(g); err != nil {
			b.Fatal(err)
		}
	}
	for more := true; more; {
		more = w.e.Decide(0).More
	}
	for i := range 5000 {
		r := coretest.Request(1)
		r.Host.CPU = int64(1_000_000 + i)
		id := engine.ID(fmt.Sprintf("w%d", i))
		if err := w.e.Submit(engine.Gang{ID: id, Min: 1, Submitted: int64(i), Roles: []engine.Role{{Request: r, Members: holders(id, 0, 1)}}}); err != nil {
			b.Fatal(err)
		}
	}
	w.e.Decide(0)
	times := map[string][]time.Duration{}
	i := 0
	for b.Loop() {
		id := engine.ID(fmt.Sprintf("w%d", i*7919%5000))
		i++
		part := func(name string, f func()) {
			began := time.Now()
			f()
			times[name] = append(times[name], time.Since(began))
		}
		part("account", func() { _, _ = w.e.Account(id) })
		part("turns", func() { w.e.Gangs.Turns(10_000) })
		part("why", func() {
			r := w.e.Why(id)
			w.e.Expect(id, &r)
		})
	}
	for name, all := range times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-"+name+"-ms")
		b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-"+name+"-ms")
	}
}
