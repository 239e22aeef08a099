package planner_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// drawUsed is a fleet of nodes with one model each, holders, and what was measured.
func drawUsed(t *rapid.T) (*ledger.Ledger, *planner.Planner) {
	l := coretest.Ledger(t)
	for _, n := range drawFleet(t, l) {
		if slices.ContainsFunc(n.Devices, func(d model.Device) bool {
			return d.Vendor != n.Devices[0].Vendor || d.Model != n.Devices[0].Model || d.Memory != n.Devices[0].Memory
		}) {
			l.RemoveNode(n.ID) // which of its devices is chosen, and rated, depends on the other holders
			continue
		}
		l.SetTelemetry(n.ID, coretest.DrawTelemetry(t, n))
	}
	p := planner.New(l)
	for i := range rapid.IntRange(0, 6).Draw(t, "placed") {
		r := coretest.DrawRequest(t)
		if rapid.Bool().Draw(t, "of the group") {
			r.Labels = []model.Label{model.GroupLabel("g")}
		}
		if c, ok := p.Best(r, score.DefaultWeights()); ok {
			v, _ := l.View(c.Node)
			l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
		}
	}
	return l, p
}

// TestNothingBeatsTheBound: no node scores better in any objective than the bound
// says, and where the bound is neutral all score the same. An objective that depends
// on more than its Basis admits fails here.
func TestNothingBeatsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, p := drawUsed(t)
		r := coretest.DrawRequest(t)
		if rapid.Bool().Draw(t, "of the group") {
			r.Labels = []model.Label{model.GroupLabel("g")}
		}
		w := score.DefaultWeights()
		b := p.BoundOf(r, w)
		var first *score.Card
		for _, id := range slices.Sorted(l.Nodes()) {
			v, _ := l.View(id)
			grant, refusal := p.Fit(r, v)
			if refusal != nil {
				continue
			}
			card := score.Rate(r, v, grant.Set)
			for o := range score.NumObjectives {
				if o.Basis() != score.OfFleet && card[o] > b.Best[o] {
					t.Fatalf("%s on %s: %d, the bound is %d", o, id, card[o], b.Best[o])
				}
			}
			if first == nil {
				first = &card
			}
			if b.Neutral && card != *first {
				t.Fatalf("neutral, but %s has %v and another %v", id, card, *first)
			}
		}
	})
}

// TestBoundsAreNotMixedUp: a cached bound equals the one computed anew, after any
// earlier requests.
func TestBoundsAreNotMixedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, p := drawUsed(t)
		w := score.DefaultWeights()
		for range rapid.IntRange(2, 8).Draw(t, "requests") {
			r := plainRequest(t)
			if got, want := p.BoundOf(r, w), planner.New(l).BoundOf(r, w); got != want {
				t.Fatalf("%+v: remembered %+v, found %+v", r, got, want)
			}
		}
	})
}

// plainRequest draws requests that differ in few ways, so that some are alike.
func plainRequest(t *rapid.T) *model.Request {
	r := coretest.Request(rapid.IntRange(1, 2).Draw(t, "count"))
	if rapid.Bool().Draw(t, "shared") {
		r.Containers[0].Part = model.Part{Kind: model.Share, Milli: rapid.SampledFrom([]int{100, 500, 1000}).Draw(t, "milli"), Memory: model.MiB(rapid.SampledFrom([]int{0, 1, 40 << 10}).Draw(t, "memory"))}
	}
	if rapid.Bool().Draw(t, "two containers") {
		r.Containers = append(r.Containers, r.Containers[0])
	}
	if rapid.Bool().Draw(t, "important") {
		r.TenantPriority = 90
	}
	r.Placement = model.Placement(rapid.IntRange(0, 1).Draw(t, "placement"))
	r.NodePlacement = model.Placement(rapid.IntRange(0, 1).Draw(t, "node placement"))
	return r
}
