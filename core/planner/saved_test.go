package planner_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestRestoredMixDecidesAlike: a planner over the same nodes, seen in another order, so that
// models have other numbers, chooses the same nodes and devices once it has restored what
// another one learned; and goes on learning alike.
func TestRestoredMixDecidesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"A100-80GB", "V100-32GB", "T4", "H100"}
		var nodes []*model.Node
		for i := range rapid.IntRange(2, 8).Draw(t, "nodes") {
			n := coretest.Node(fmt.Sprint("n", i)).GPUs(rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus"), rapid.SampledFrom(models).Draw(t, "model")).Build()
			n.Host = model.Host{CPU: 64_000, Memory: model.Bytes(512) << 30}
			nodes = append(nodes, n)
		}
		build := func(order []*model.Node) *planner.Planner {
			l := coretest.Ledger(t, order...)
			p := planner.New(l)
			for _, n := range order { // numbers in the order of appearance
				p.Know(&n.Devices[0])
			}
			return p
		}
		request := func() *model.Request {
			r := coretest.Request(rapid.SampledFrom([]int{1, 1, 1, 2, 4, 8}).Draw(t, "asks"))
			if r.Count() == 1 && rapid.Bool().Draw(t, "shares") {
				r.Containers[0].Part = model.Part{Kind: model.Share, Milli: rapid.SampledFrom([]int{100, 300, 500, 700}).Draw(t, "milli")}
			}
			r.Host = model.Host{CPU: rapid.SampledFrom([]int64{1000, 4000, 16_000}).Draw(t, "cpu"), Memory: model.Bytes(4) << 30}
			if rapid.IntRange(0, 2).Draw(t, "picky") == 0 {
				r.UseModels = []model.GPUModel{model.ParseModel(rapid.SampledFrom(models).Draw(t, "wants"))}
			}
			return r
		}
		first := build(nodes)
		var seen []*model.Request
		for range rapid.IntRange(1, 8).Draw(t, "kinds") {
			seen = append(seen, request())
		}
		for i := range rapid.IntRange(0, 150).Draw(t, "arrivals") {
			first.Arrive(seen[i*i%len(seen)])
		}
		mix := first.Save()
		if err := mix.Validate(); err != nil {
			t.Fatal(err)
		}
		backwards := slices.Clone(nodes)
		slices.Reverse(backwards)
		second := build(backwards)
		second.Arrive(request()) // what it saw itself is replaced
		second.Restore(mix)
		if again := second.Save(); !reflect.DeepEqual(mix, again) {
			t.Fatalf("saved %+v\nrestored %+v", mix, again)
		}
		for range 60 {
			r := request()
			first.Arrive(r)
			second.Arrive(r)
			a, okA := first.Best(r, score.DefaultWeights())
			b, okB := second.Best(r, score.DefaultWeights())
			if okA != okB || okA && (a.Node != b.Node || a.Grant.Set != b.Grant.Set) {
				t.Fatalf("%+v: %s %b, restored: %s %b", r, a.Node, a.Grant.Set, b.Node, b.Grant.Set)
			}
		}
	})
}

// TestMixOfAnotherFleet: what only models of another fleet can serve is left out, and sets
// that mean all of this one's models mean any.
func TestMixOfAnotherFleet(t *testing.T) {
	fleet := func(models ...string) *planner.Planner {
		var nodes []*model.Node
		for i, m := range models {
			nodes = append(nodes, coretest.Node(fmt.Sprint("n", i)).GPUs(8, m).Build())
		}
		return planner.New(coretest.Ledger(t, nodes...))
	}
	want := func(m string) *model.Request {
		r := coretest.Request(1)
		r.UseModels = []model.GPUModel{model.ParseModel(m)}
		return r
	}
	old := fleet("A100", "V100")
	for range 60 {
		old.Arrive(want("A100"))
		old.Arrive(want("V100"))
	}
	other := fleet("A100")
	other.Restore(old.Save())
	got := other.Save()
	if len(got.Classes) != 1 || got.Classes[0].Class.Models != 0 || got.Classes[0].Count != 60<<10 {
		t.Errorf("%+v", got)
	}
}
