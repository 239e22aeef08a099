package model_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/model"
)

func TestAffinityRules(t *testing.T) {
	db, gold := model.Label{Scope: "x", Key: "app", Value: "db"}, model.Label{Scope: "x", Key: "tier", Value: "gold"}
	tests := []struct {
		name     string
		rule     model.AffinityRule
		wantText string
		wantErr  string
	}{
		{"one label", model.AffinityRule{Kind: model.SameDevice, Match: []model.Label{db}}, "same-device=app:db", ""},
		{"two labels", model.AffinityRule{Kind: model.DifferentNode, Match: []model.Label{db, gold}}, "different-node=app:db+tier:gold", ""},
		{"every holder", model.AffinityRule{Kind: model.DifferentDevice}, "different-device=*", ""},
		{"with every holder", model.AffinityRule{Kind: model.SameNode}, "same-node=*", "match: empty, which only rules that keep apart may be"},
		{"no kind", model.AffinityRule{Match: []model.Label{db}}, "unspecified=app:db", "kind: 0 is not a kind"},
		{"out of order", model.AffinityRule{Kind: model.SameNode, Match: []model.Label{gold, db}}, "same-node=tier:gold+app:db", "match: not sorted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.rule.String(); got != tt.wantText {
				t.Errorf("got %q, want %q", got, tt.wantText)
			}
			got := ""
			if err := tt.rule.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.wantErr {
				t.Errorf("got error %q, want %q", got, tt.wantErr)
			}
		})
	}
	for _, name := range []string{"same-device", "different-device", "same-node", "different-node"} {
		if k, ok := model.ParseAffinityKind(name); !ok || k.String() != name {
			t.Errorf("%s: got %v, %v", name, k, ok)
		}
	}
	if _, ok := model.ParseAffinityKind("unspecified"); ok {
		t.Error("no kind is not a kind")
	}
}
