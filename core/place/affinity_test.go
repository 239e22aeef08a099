package place_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

func app(name string) []model.Label {
	return []model.Label{{Scope: "default", Key: "app", Value: name}}
}

// quarter asks for quarters of devices, one per device.
func quarter(devices int, labels []model.Label, rules ...model.AffinityRule) *model.Request {
	r := coretest.Request(devices)
	r.Containers[0].Part = model.Part{Kind: model.Share, MemoryMilli: 250}
	r.Labels, r.Affinity = labels, rules
	return r
}

func rule(kind model.AffinityKind, match ...model.Label) model.AffinityRule {
	return model.AffinityRule{Kind: kind, Match: match}
}

func TestFitAffinity(t *testing.T) {
	// Two nodes of two devices; db has a quarter of the second device of a.
	setup := func(t *testing.T, rules ...model.AffinityRule) *ledger.Ledger {
		t.Helper()
		l := coretest.Ledger(t, coretest.Node("a").GPUs(2, "A100").Build(), coretest.Node("b").GPUs(2, "A100").Build())
		r := quarter(1, app("db"), rules...)
		r.UseIndexes = []int{1}
		v, _ := l.View("a")
		grant, refusal := place.Fit(r, v)
		if refusal != nil {
			t.Fatal(refusal)
		}
		l.Put("a", grant.Claim("db", r, v.Node))
		return l
	}
	no := func(code explain.Code, best, devices int, detail string) *explain.Refusal {
		return &explain.Refusal{Code: code, Need: 1, Best: int64(best), Devices: devices, Detail: detail}
	}
	tests := []struct {
		name         string
		dbs          []model.AffinityRule
		request      *model.Request
		onA, onB     model.Mask
		wantA, wantB *explain.Refusal
	}{
		{"no rules", nil, quarter(1, app("web")), 0b10, 0b01, nil, nil},
		{"same device", nil, quarter(1, app("web"), rule(model.SameDevice, app("db")...)), 0b10, 0,
			nil, no(explain.NoCompany, 0, 2, "same-device=app:db")},
		{"same device, two of them", nil, func() *model.Request {
			return quarter(2, app("web"), rule(model.SameDevice, app("db")...))
		}(), 0, 0, &explain.Refusal{Code: explain.NoCompany, Need: 2, Best: 1, Devices: 2, Detail: "same-device=app:db"},
			&explain.Refusal{Code: explain.NoCompany, Need: 2, Devices: 2, Detail: "same-device=app:db"}},
		{"same node", nil, quarter(1, app("web"), rule(model.SameNode, app("db")...)), 0b10, 0,
			nil, no(explain.NoCompany, 0, 2, "same-node=app:db")},
		{"no holder matches", nil, quarter(1, app("web"), rule(model.SameNode, app("cache")...)), 0, 0,
			no(explain.NoCompany, 0, 2, "same-node=app:cache"), no(explain.NoCompany, 0, 2, "same-node=app:cache")},
		{"the first of its group", nil, quarter(1, app("web"), rule(model.SameDevice, app("web")...)), 0b10, 0b01, nil, nil},
		{"different device", nil, quarter(1, app("web"), rule(model.DifferentDevice, app("db")...)), 0b01, 0b01, nil, nil},
		{"different devices, two of them", nil, quarter(2, app("web"), rule(model.DifferentDevice, app("db")...)), 0, 0b11,
			&explain.Refusal{Code: explain.TooClose, Need: 2, Best: 1, Devices: 2, Detail: "different-device=app:db"}, nil},
		{"alone on its device", nil, quarter(1, app("web"), rule(model.DifferentDevice)), 0b01, 0b01, nil, nil},
		{"different node", nil, quarter(1, app("web"), rule(model.DifferentNode, app("db")...)), 0, 0b01,
			no(explain.TooClose, 0, 2, "different-node=app:db"), nil},
		{"kept away from a device", []model.AffinityRule{rule(model.DifferentDevice, app("web")...)}, quarter(1, app("web")), 0b01, 0b01, nil, nil},
		{"kept away from a node", []model.AffinityRule{rule(model.DifferentNode)}, quarter(1, app("web")), 0, 0b01,
			no(explain.TooClose, 0, 2, "another's rule different-node=*"), nil},
		{"others are not", []model.AffinityRule{rule(model.DifferentNode, app("web")...)}, quarter(1, app("cache")), 0b10, 0b01, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := setup(t, tt.dbs...)
			for _, on := range []struct {
				id   model.NodeID
				set  model.Mask
				want *explain.Refusal
			}{{"a", tt.onA, tt.wantA}, {"b", tt.onB, tt.wantB}} {
				v, _ := l.View(on.id)
				grant, refusal := place.Fit(tt.request, v)
				if grant.Set != on.set || fmt.Sprint(refusal) != fmt.Sprint(on.want) {
					t.Errorf("on %s: got %b, %+v, want %b, %+v", on.id, grant.Set, refusal, on.set, on.want)
				}
			}
			if got, want := len(place.Ask(l, tt.request).Groups) > 0, tt.onA|tt.onB != 0; got != want {
				t.Errorf("Fits: got %v", got)
			}
		})
	}
}

// TestRulesHold: no two holders are closer than a rule of either allows, and a request
// with an affinity rule was placed beside a match, unless it was the first of its
// group.
func TestRulesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			_ = l.SetNode(coretest.DrawNode(t, fmt.Sprintf("n%d", i)))
		}
		type placed struct {
			r    *model.Request
			node model.NodeID
			set  model.Mask
		}
		var all []placed
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			r := coretest.DrawRequest(t)
			coretest.DrawAffinity(t, r)
			for c := range planner.New(l).Candidates(r, score.DefaultWeights()) {
				for _, rule := range r.Affinity {
					var near, exists bool
					for _, o := range all {
						if rule.Matches(o.r.Labels) {
							exists = true
							near = near || o.node == c.Node && (rule.Kind == model.SameNode || o.set&c.Grant.Set != 0)
						}
					}
					if !rule.Kind.IsAnti() && !near && (exists || !rule.Matches(r.Labels)) {
						t.Fatalf("%v wants %s and got %s %b", r.Labels, rule, c.Node, c.Grant.Set)
					}
				}
				v, _ := l.View(c.Node)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
				all = append(all, placed{r, c.Node, c.Grant.Set})
				break
			}
		}
		for i, a := range all {
			for j, b := range all {
				for _, rule := range place.AntiAffinity(a.r.Affinity) {
					if i != j && a.node == b.node && rule.Matches(b.r.Labels) && (rule.Kind == model.DifferentNode || a.set&b.set != 0) {
						t.Fatalf("%v with %s is beside %v on %s", a.r.Labels, rule, b.r.Labels, a.node)
					}
				}
			}
		}
	})
}

// TestSharesGoToTheLessBusy: among equally full devices the less busy one, in steps
// of ten percent; a fuller one still goes first.
func TestSharesGoToTheLessBusy(t *testing.T) {
	busy := func(percent ...int) (out []model.Telemetry) {
		for _, p := range percent {
			out = append(out, model.Telemetry{Utilization: model.Measured(p)})
		}
		return out
	}
	tests := []struct {
		name      string
		telemetry []model.Telemetry
		want      model.Mask
	}{
		{"nothing measured", nil, 0b001},
		{"the idle one", busy(90, 40, 10), 0b100},
		{"noise is none", busy(42, 40, 90), 0b001},
		{"unmeasured is in the middle", []model.Telemetry{busy(90)[0], {}, busy(70)[0]}, 0b010},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := coretest.Ledger(t, coretest.Node("a").GPUs(3, "A100").Build())
			l.SetTelemetry("a", tt.telemetry)
			v, _ := l.View("a")
			if grant, _ := place.Fit(quarter(1, nil), v); grant.Set != tt.want {
				t.Errorf("got %b, want %b", grant.Set, tt.want)
			}
		})
	}
}
