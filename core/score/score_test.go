package score_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// rate places a request on a node of which the lowest devices are held.
func rate(t *testing.T, n *model.Node, held int, r *model.Request) score.Card {
	t.Helper()
	l := coretest.Ledger(t, n)
	if held > 0 {
		l.Put(n.ID, coretest.WholeClaim("other", n, coretest.Request(held), model.FullMask(held)))
	}
	v, _ := l.View(n.ID)
	grant, refusal := place.Fit(r, v)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return score.Rate(r, v, grant.Set)
}

func a100() *model.Node {
	return coretest.Node("n").GPUs(8, "A100").Link(model.NVSwitch, 12, 0, 1, 2, 3, 4, 5, 6, 7).Build()
}

// TestUtilization: follows the direction the user asked for, and is neutral without
// one.
func TestUtilization(t *testing.T) {
	tests := []struct {
		name               string
		placement          model.Placement
		held               int
		want, wantFragment int // wantFragment 0: not checked
	}{
		{"auto on an empty node", model.Auto, 0, 50, 0},
		{"auto on a full node", model.Auto, 7, 50, 0},
		{"binpack on an empty node", model.Binpack, 0, 0, 0},
		{"binpack on a half-full node", model.Binpack, 4, 50, 0},
		{"binpack on a full node", model.Binpack, 7, 87, 0},
		{"spread on an empty node", model.Spread, 0, 100, 50},
		{"spread on a full node", model.Spread, 7, 13, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := coretest.Request(1)
			r.NodePlacement = tt.placement
			card := rate(t, a100(), tt.held, r)
			if got := card[score.Utilization]; got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if got := card[score.Fragmentation]; tt.wantFragment > 0 && got != tt.wantFragment {
				t.Errorf("fragmentation: got %d, want %d", got, tt.wantFragment)
			}
		})
	}
}

// TestUtilizationCountsShares: half of one device of eight in use.
func TestUtilizationCountsShares(t *testing.T) {
	n := a100()
	l := coretest.Ledger(t, n)
	l.Put(n.ID, ledger.Claim{Holder: "other", Vendor: model.NVIDIA, Parts: []ledger.HeldPart{{Part: model.Part{Kind: model.Share, MemoryMilli: 500}}}})
	v, _ := l.View(n.ID)
	r := coretest.Request(1)
	r.NodePlacement = model.Binpack
	if got := score.Rate(r, v, 0b10)[score.Utilization]; got != 6 {
		t.Errorf("got %d, want 6", got)
	}
}

func TestTypeMatch(t *testing.T) {
	models := func(names ...string) (out []model.GPUModel) {
		for _, n := range names {
			out = append(out, model.ParseModel(n))
		}
		return out
	}
	tests := []struct {
		name   string
		prefer []model.GPUModel
		want   int
	}{
		{"unspecified", nil, 50},
		{"exact", models("T4", "A100"), 100},
		{"compatible", models("V100"), 70},
		{"other", models("T4"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := coretest.Request(1)
			r.PreferModels = tt.prefer
			if got := rate(t, a100(), 0, r)[score.TypeMatch]; got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestPriorityAndWorkloadPreferSuitableHardware(t *testing.T) {
	t4 := coretest.Node("t").GPUs(2, "T4").Build()
	important, humble := coretest.Request(1), coretest.Request(1)
	important.TenantPriority, humble.TenantPriority = 100, 20
	if rate(t, a100(), 0, important)[score.Priority] <= rate(t, t4, 0, important)[score.Priority] {
		t.Error("an important tenant should prefer the better GPU")
	}
	if rate(t, a100(), 0, humble)[score.Priority] >= rate(t, t4, 0, humble)[score.Priority] {
		t.Error("a humble tenant should leave the better GPU alone")
	}
	unranked := coretest.Request(1)
	if a, b := rate(t, a100(), 0, unranked)[score.Priority], rate(t, t4, 0, unranked)[score.Priority]; a != 50 || b != 50 {
		t.Errorf("without a tenant priority every hardware is neutral: got %d and %d", a, b)
	}
	training, inference := coretest.Request(1), coretest.Request(1)
	training.Workload, inference.Workload = model.Training, model.Inference
	if rate(t, a100(), 0, training)[score.Workload] <= rate(t, t4, 0, training)[score.Workload] {
		t.Error("training should prefer fast, linked GPUs")
	}
	if rate(t, a100(), 0, inference)[score.Workload] >= rate(t, t4, 0, inference)[score.Workload] {
		t.Error("inference should prefer mid-range GPUs")
	}
}

func TestWeights(t *testing.T) {
	tests := []struct {
		name string
		w    score.Weights
		want string
	}{
		{"default", score.DefaultWeights(), ""},
		{"three-weight form", score.Weights{40, 30, 30}, ""},
		{"negative", score.Weights{score.Topology: -1}, "weights.topology: -1"},
		{"absurd", score.Weights{score.Workload: 1 << 40}, "weights.workload"},
		{"all zero", score.Weights{}, "weights: all are 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.w.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if got := (score.Weights{40, 30, 30}).Total(score.Card{100, 50, 0, 100, 100, 100, 100, 100, 100, 100}); got != 5500 {
		t.Errorf("weighted mean: got %d, want 5500", got)
	}
}

// TestScoresStayInRange: every objective is 0..100 and every total 0..Scale.
func TestScoresStayInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		for i := range 3 {
			n := coretest.DrawNode(t, string(rune('a'+i)))
			_ = l.SetNode(n)
			l.SetTelemetry(n.ID, coretest.DrawTelemetry(t, n))
		}
		r := coretest.DrawRequest(t)
		var w score.Weights
		for o := range w {
			w[o] = rapid.IntRange(0, 1000).Draw(t, "weight")
		}
		w[0]++
		p := planner.New(l)
		for c := range p.Candidates(r, w) {
			rating, _ := p.Rate(r, w, c.Node)
			for o, s := range rating.Card {
				if s < 0 || s > 100 {
					t.Fatalf("%s is %d", score.Objective(o), s)
				}
			}
			if rating.Total < 0 || rating.Total > score.Scale {
				t.Fatalf("total is %d", rating.Total)
			}
		}
	})
}

// TestPreferredLinks: a set that meets the preference gets the full score, one that
// misses it loses points.
func TestPreferredLinks(t *testing.T) {
	n := coretest.Node("n").GPUs(4, "A100").Link(model.PIX, 0, 0, 1, 2, 3).Build()
	for want, prefer := range map[int]model.LinkClass{80: model.SYS, 100: model.PXB, 40: model.NVLink} {
		r := coretest.Request(2)
		r.Prefer.Link = prefer
		if got := rate(t, n, 0, r)[score.Topology]; got != want {
			t.Errorf("prefers %s: got %d, want %d", prefer, got, want)
		}
	}
}
