package place_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestEqualFitKeysEqualAnswers: a node gives equal answers to requests with equal keys,
// and to a request and its copy. Where rules of holders match a request's labels, the
// labels' key must be equal too.
func TestEqualFitKeysEqualAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := coretest.DrawNode(t, "n0")
		n.Extras = coretest.DrawExtras(t, 4)
		l := coretest.Ledger(t, n)
		for _, h := range []model.HolderID{"a", "b", "c"} {
			r := coretest.DrawRequest(t)
			coretest.DrawAffinity(t, r)
			v, _ := l.View("n0")
			if g, refusal := place.Fit(r, v); refusal == nil {
				l.Put("n0", g.Claim(h, r, n))
			}
		}
		r := coretest.DrawRequest(t)
		r.Extras = coretest.DrawExtras(t, 2)
		if rapid.Bool().Draw(t, "affinity") {
			coretest.DrawAffinity(t, r)
		}
		other := *r
		drawn := coretest.DrawRequest(t)
		other.Priority, other.TenantPriority, other.Workload = drawn.Priority, drawn.TenantPriority, drawn.Workload
		other.PreferModels, other.NodePlacement, other.Prefer.Level = drawn.PreferModels, drawn.NodePlacement, drawn.Prefer.Level
		if rapid.Bool().Draw(t, "other labels") {
			coretest.DrawAffinity(t, drawn)
			other.Labels = drawn.Labels
		}
		if r.FitKey() != other.FitKey() {
			if len(r.Affinity) == 0 {
				t.Fatalf("%+v and %+v have different keys", r, other)
			}
			return
		}
		if !slices.Equal(r.Labels, other.Labels) && (l.KeptApart(r.Labels) || l.KeptApart(other.Labels)) {
			return
		}
		v, _ := l.View("n0")
		grant, refusal := place.Fit(r, v)
		grant2, refusal2 := place.Fit(&other, v)
		if diff := cmp.Diff(grant, grant2) + cmp.Diff(refusal, refusal2); diff != "" || v.Covers(r) != v.Covers(&other) {
			t.Fatalf("equal keys, but %s", diff)
		}
	})
}
