package web

import (
	"slices"
	"strconv"
	"testing"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/web/fake"
)

// TestMeasure measures what docs/guides/web.md states, at 1,000 nodes with 8 devices each:
// how long until something, and until the map, is seen, and what an update costs. Times are
// only logged; what is checked is that an update transfers and draws what changed.
func TestMeasure(t *testing.T) {
	fleet := fake.New(1000, false)
	url := site(t, fleet, true)
	v := visit(t)
	v.open(url + "/#/fleet?by=queue")
	v.shown()
	v.until(`performance.getEntriesByName('fleet-draw').length > 0`)
	start := eval[struct{ Paint, Map, Show, Draw, Bytes, Nodes float64 }](v, `(() => {
		const one = (name) => performance.getEntriesByName(name)[0];
		const nodes = performance.getEntriesByType('resource').find((r) => r.name.endsWith('/query/v1/nodes'));
		const draw = performance.getEntriesByName('fleet-draw').find((e) => e.startTime > one('fleet-show').startTime);
		return { Paint: one('first-contentful-paint').startTime, Map: draw.startTime + draw.duration, Show: one('fleet-show').duration, Draw: draw.duration,
			Bytes: performance.getEntriesByType('resource').filter((r) => !r.name.includes('/query/')).reduce((s, r) => s + r.transferSize, 0), Nodes: nodes.transferSize };
	})()`)
	t.Logf("first paint %.0f ms, map of 8,000 devices %.0f ms after opening; first show %.1f ms, first draw %.1f ms; page %.0f KiB, nodes %.0f KiB", start.Paint, start.Map, start.Show, start.Draw, start.Bytes/1024, start.Nodes/1024)

	eval[any](v, `performance.clearMeasures(); performance.clearResourceTimings()`)
	for range 6 {
		n := eval[int](v, `performance.getEntriesByName('fleet-show').length`)
		fleet.Step(50)
		v.until(`performance.getEntriesByName('fleet-show').length > ` + strconv.Itoa(n) + ` && performance.getEntriesByName('fleet-draw').length > ` + strconv.Itoa(n))
	}
	updates := eval[struct{ Show, Draw, Bytes []float64 }](v, `({
		Show: performance.getEntriesByName('fleet-show').map((e) => e.duration), Draw: performance.getEntriesByName('fleet-draw').map((e) => e.duration),
		Bytes: performance.getEntriesByType('resource').filter((r) => r.name.includes('since=')).map((r) => r.transferSize),
	})`)
	show, draw, bytes := median(updates.Show), median(updates.Draw), median(updates.Bytes)
	t.Logf("update of 50 of 1,000 nodes: %.1f ms to bring the page up to date, %.1f ms to draw the map, %.1f KiB", show, draw, bytes/1024)

	eval[any](v, `performance.clearMeasures()`)
	eval[any](v, `(async () => { for (let i = 0; i < 20; i++) { scrollBy(0, 60); await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); } })()`)
	t.Logf("scrolling: %.1f ms a frame", median(eval[[]float64](v, `performance.getEntriesByName('fleet-draw').map((e) => e.duration)`)))

	if asks := fleet.Asks(); asks[query.PathNodes] != 1 {
		t.Errorf("all nodes were asked for %d times, want once", asks[query.PathNodes])
	}
	if bytes > start.Nodes/5 {
		t.Errorf("an update of 50 of 1,000 nodes transfers %.0f bytes, all nodes are %.0f", bytes, start.Nodes)
	}
	if shows, draws := len(updates.Show), len(updates.Draw); draws > 2*shows {
		t.Errorf("%d updates drew the map %d times", shows, draws)
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}
