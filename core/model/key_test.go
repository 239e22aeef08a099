package model_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// fullNode has a value in every field.
func fullNode() *model.Node {
	return &model.Node{
		ID: "n",
		Devices: []model.Device{{
			Index: 1, UUID: "u", Vendor: model.NVIDIA, Model: model.ParseModel("A100 80GB"), Memory: 40 << 10, NUMA: 1, Health: model.Suspect,
			Tenants: 4, MIG: []model.MIGProfile{{ID: 19, Name: "1g.5gb", Memory: 4864, Compute: 1, Size: 1, Starts: []int{0, 1}, Media: true}}, MIGSlices: 8, Fixed: true,
		}},
		Links:      []model.Link{{Between: []int{1, 2}, Class: model.NVLink, Count: 4}},
		Attributes: []model.Attribute{{Key: "a", Value: "b"}},
		Sellable:   map[model.Vendor]int{model.NVIDIA: 1},
		Host:       model.Host{CPU: 1000, Memory: 1 << 30},
		Extras:     model.Extras{{Name: "pods", Amount: 110}},
		Domains:    []string{"z1"},
		NUMA:       model.FewestNUMA, NUMAPerContainer: true,
	}
}

// noPartOfKinds are the fields of a node that do not make nodes different kinds, and
// why. Every other field does.
var noPartOfKinds = map[string]string{
	"ID":             "it would make every node a kind of its own",
	"Devices[].UUID": "it would make every node a kind of its own; requests that name UUIDs are judged node by node",
	"Host":           "compared node by node (ledger.View.Covers)",
	"Extras":         "compared node by node (ledger.View.Covers)",
	"Domains[]":      "which domain it is would make every rack a kind of its own; only whether there is one counts",
}

// TestKindKeySeesEveryField fails for a field of a node that the key does not depend
// on, unless it is listed above; and for a listed one that it does depend on.
func TestKindKeySeesEveryField(t *testing.T) {
	base := fullNode().KindKey()
	coretest.EachChange(t, fullNode, func(path string, n *model.Node) {
		why, left := coretest.Listed(noPartOfKinds, path)
		if path == "Domains[+]" {
			left = false // one level more is another kind
		}
		if (n.KindKey() == base) != left {
			t.Errorf("%s: in the key %v, left out on purpose %v (%s)", path, n.KindKey() != base, left, why)
		}
	})
	none := fullNode()
	none.Domains[0] = ""
	if none.KindKey() == base {
		t.Error("a node without a domain is of the same kind as one with")
	}
}

// fullRequest has a value in every field.
func fullRequest() *model.Request {
	models := func() []model.GPUModel { return []model.GPUModel{model.ParseModel("A100 80GB")} }
	near := func() model.Closeness {
		return model.Closeness{Bond: model.Bond{Link: model.PIX, NUMA: true}, Level: model.Level{Name: "rack", Label: "r", Depth: 1}}
	}
	return &model.Request{
		Vendor:     model.NVIDIA,
		Containers: []model.Container{{Name: "main", Phase: model.Sidecar, Resource: "r", Count: 2, Part: model.Part{Kind: model.Share, Memory: 1, MemoryMilli: 2, Milli: 3, Turn: true, Profile: "p"}}},
		MinMemory:  1, UseModels: models(), AvoidModels: models(), ProfileModels: models(), PreferModels: models(),
		UseUUIDs: []string{"u"}, AvoidUUIDs: []string{"v"}, UseIndexes: []int{1},
		Attributes: []model.Want{{Key: "k", Values: []string{"v"}}},
		Require:    near(), Prefer: near(),
		Placement: model.Binpack, NodePlacement: model.Binpack,
		Affinity: []model.AffinityRule{{Kind: model.SameNode, Match: []model.Label{{Scope: "ns", Key: "k", Value: "v"}}}},
		Labels:   []model.Label{{Scope: "ns", Key: "k", Value: "v"}},
		Host:     model.Host{CPU: 1, Memory: 2}, Extras: model.Extras{{Name: "pods", Amount: 1}},
		Priority: 1, TenantPriority: 2, Workload: model.Training,
	}
}

// onlyRanked are the fields that decide between nodes that can take a request; unread
// are those that no decision about places reads.
var (
	onlyRanked = map[string]string{
		"PreferModels":   "an objective, no requirement",
		"Prefer.Level":   "an objective, no requirement",
		"NodePlacement":  "which nodes are filled first",
		"TenantPriority": "an objective, no requirement",
		"Workload":       "an objective, no requirement",
	}
	unread = map[string]string{
		"Priority":              "which holders it may preempt is not a node's answer",
		"Containers[].Name":     "passed on to the record",
		"Containers[].Resource": "passed on to the record",
	}
)

// TestRequestKeysSeeEveryField: every field is in the key it belongs to and in no
// other, or listed as unread.
func TestRequestKeysSeeEveryField(t *testing.T) {
	fit, rank := fullRequest().FitKey(), fullRequest().RankKey()
	coretest.EachChange(t, fullRequest, func(path string, r *model.Request) {
		_, ranked := coretest.Listed(onlyRanked, path)
		_, skipped := coretest.Listed(unread, path)
		if got := r.FitKey() != fit; got != (!ranked && !skipped) {
			t.Errorf("%s: in FitKey %v, want %v", path, got, !ranked && !skipped)
		}
		if got := r.RankKey() != rank; got != ranked {
			t.Errorf("%s: in RankKey %v, want %v", path, got, ranked)
		}
	})
}

// Labels say nothing where no rule is about them, and groups never do.
func TestLabelsInKeys(t *testing.T) {
	with := func(affinity bool, labels ...model.Label) *model.Request {
		r := fullRequest()
		r.Labels = labels
		if !affinity {
			r.Affinity = nil
		}
		return r
	}
	app, group := model.Label{Scope: "ns", Key: "app", Value: "x"}, model.GroupLabel("g")
	if with(false, app).FitKey() != with(false).FitKey() {
		t.Error("labels matter without rules")
	}
	if with(true, app).FitKey() == with(true).FitKey() {
		t.Error("labels do not matter to the request's own rules")
	}
	if with(true, group, app).FitKey() != with(true, app).FitKey() {
		t.Error("a group is taken for a label")
	}
	if with(true, group).RankKey() == with(true, model.GroupLabel("h")).RankKey() {
		t.Error("where the group is does not matter to a request that would be near it")
	}
	far := with(true, group)
	other := with(true, model.GroupLabel("h"))
	far.Prefer.Level, other.Prefer.Level = model.Level{}, model.Level{}
	if far.RankKey() != other.RankKey() {
		t.Error("the group matters to a request that does not care")
	}
}

// TestEveryVendorIsListed: a vendor that is only a constant would be refused
// everywhere.
func TestEveryVendorIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "node.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Vendor" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || model.Vendor(text).Index() < 0 {
			t.Errorf("%s (%q) is not in Vendors", spec.Names[0].Name, text)
		}
		found++
		return true
	})
	if found != model.NumVendors {
		t.Errorf("%d constants, %d vendors", found, model.NumVendors)
	}
}
