package ledger_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

func label(scope, key, value string) model.Label {
	return model.Label{Scope: scope, Key: key, Value: value}
}

func about(kind model.AffinityKind, match ...model.Label) model.AffinityRule {
	return model.AffinityRule{Kind: kind, Match: match}
}

func TestMatching(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("a").GPUs(2, "A100").Build(), coretest.Node("b").GPUs(2, "A100").Build())
	db := claim("db", 1, 1, 1)
	db.Labels = []model.Label{label("x", "app", "db"), label("x", "tier", "gold")}
	l.Put("a", db)
	tests := []struct {
		name           string
		node           model.NodeID
		rule           model.AffinityRule
		devices        model.Mask
		here, anywhere bool
	}{
		{"on its node", "a", about(model.SameNode, label("x", "app", "db")), 0b10, true, true},
		{"all labels", "a", about(model.SameNode, label("x", "app", "db"), label("x", "tier", "gold")), 0b10, true, true},
		{"not all labels", "a", about(model.SameNode, label("x", "app", "db"), label("x", "tier", "lead")), 0, false, false},
		{"another scope", "a", about(model.SameNode, label("y", "app", "db")), 0, false, false},
		{"on another node", "b", about(model.SameNode, label("x", "app", "db")), 0, false, true},
		{"every holder", "a", about(model.DifferentDevice), 0b10, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, _ := l.View(tt.node)
			if devices, here, anywhere := v.Matching(tt.rule); devices != tt.devices || here != tt.here || anywhere != tt.anywhere {
				t.Errorf("got %b, %v, %v", devices, here, anywhere)
			}
		})
	}
	// A holder on a node that no longer exists matches no rule.
	l.RemoveNode("a")
	v, _ := l.View("b")
	if _, _, anywhere := v.Matching(about(model.SameNode, label("x", "app", "db"))); anywhere {
		t.Error("the node of the only match is gone")
	}
}

func TestKeptApart(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("a").GPUs(2, "A100").Build())
	shy := claim("shy", 1, 1, 0)
	shy.Apart = []model.AffinityRule{about(model.DifferentDevice, label("x", "app", "web"))}
	l.Put("a", shy)
	web, other := []model.Label{label("x", "app", "web")}, []model.Label{label("y", "app", "web")}
	if !l.KeptApart(web) || l.KeptApart(other) {
		t.Error("the rule is about app:web of scope x")
	}
	v, _ := l.View("a")
	if got, by := v.KeptFrom(web); got != 0b01 || by.String() != "different-device=app:web" {
		t.Errorf("got %b by %s", got, by)
	}
	shy.Apart = []model.AffinityRule{about(model.DifferentNode, web...)} // claims in the ledger are not ours to change
	v, _ = l.ViewWith("a", func(model.HolderID) bool { return true }, []ledger.Claim{shy})
	if got, _ := v.KeptFrom(web); got != 0b11 {
		t.Errorf("kept from the node: got %b", got)
	}
	l.Drop("shy")
	if l.KeptApart(web) {
		t.Error("the rules of a dropped holder still apply")
	}
}

// TestTelemetryGoesWithItsInventory: readings of replaced devices are dropped, and so
// are readings of devices that the node does not have.
func TestTelemetryGoesWithItsInventory(t *testing.T) {
	n := coretest.Node("a").GPUs(2, "A100").Build()
	l := coretest.Ledger(t, n)
	l.SetTelemetry("a", []model.Telemetry{{}, {Utilization: model.Measured(90)}})
	if v, _ := l.View("a"); v.Telemetry(1).Utilization != model.Measured(90) || v.Telemetry(0).Utilization.Known || !l.Measured() {
		t.Errorf("got %v", v.Telemetry(1))
	}
	if err := l.SetNode(coretest.Node("a").GPUs(2, "A100").Build()); err != nil || !l.Measured() {
		t.Errorf("saying the same again must change nothing: %v", err)
	}
	if err := l.SetNode(coretest.Node("a").GPUs(3, "A100").Build()); err != nil || l.Measured() {
		t.Errorf("another inventory has not been measured: %v", err)
	}
	l.SetTelemetry("a", make([]model.Telemetry, 3))
	l.SetTelemetry("a", []model.Telemetry{{Power: model.Measured(1)}})
	l.SetTelemetry("gone", []model.Telemetry{{Power: model.Measured(1)}})
	if l.Measured() {
		t.Error("nothing was measured on the devices of the node")
	}
}
