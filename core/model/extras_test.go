package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestExtrasAgreeWithMaps: sums, products and comparisons are those of a map from
// name to amount, and every result is in canonical form.
func TestExtrasAgreeWithMaps(t *testing.T) {
	asMap := func(e model.Extras) map[string]int64 {
		out := map[string]int64{}
		for _, x := range e {
			out[x.Name] = x.Amount
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := coretest.DrawExtras(t, 3), coretest.DrawExtras(t, 3)
		before := append(model.Extras{}, a...)
		sum, n := a.Plus(b), rapid.IntRange(0, 3).Draw(t, "times")
		product := a.Times(n)
		covers := true
		for _, name := range []string{"ephemeral-storage", "nvidia.com/gpu", "pods", "rdma/hca", "other"} {
			x, y := asMap(a)[name], asMap(b)[name]
			if sum.Amount(name) != x+y || product.Amount(name) != x*int64(n) {
				t.Fatalf("%s: sum %v, product %v of %v and %v", name, sum, product, a, b)
			}
			covers = covers && x >= y
		}
		if a.Covers(b) != covers {
			t.Fatalf("%v covers %v: %v, want %v", a, b, a.Covers(b), covers)
		}
		if err := sum.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := product.Validate(); err != nil {
			t.Fatal(err)
		}
		if !a.Equal(before) {
			t.Fatalf("%v was changed to %v", before, a)
		}
	})
}

// A request may name any number; the sum of several members' requests never overflows
// to less than one of them.
func TestHugeAmountsStayHuge(t *testing.T) {
	huge := model.MakeExtras([]model.Extra{{Name: "rdma/hca", Amount: 1<<63 - 1}})
	if err := huge.Validate(); err != nil || huge.Amount("rdma/hca") != model.MaxAmount {
		t.Errorf("got %v, %v", huge, err)
	}
	host := model.Host{CPU: model.MaxAmount, Memory: model.MaxAmount}
	for _, n := range []int{2, 1 << 13, 1 << 20} {
		if got := huge.Times(n).Plus(huge).Amount("rdma/hca"); got <= model.MaxAmount {
			t.Errorf("%d holders need %d", n, got)
		}
		if got := host.Times(n).Plus(host); got.CPU <= host.CPU || got.Memory <= host.Memory {
			t.Errorf("%d holders need %v", n, got)
		}
	}
}

func TestExtrasValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   model.Extras
		want string
	}{
		{"good", model.Extras{{Name: "a", Amount: 1}, {Name: "b", Amount: 1}}, ""},
		{"no name", model.Extras{{Amount: 1}}, "extras[0].name"},
		{"twice", model.Extras{{Name: "a", Amount: 1}, {Name: "a", Amount: 1}}, "extras[1].name"},
		{"out of order", model.Extras{{Name: "b", Amount: 1}, {Name: "a", Amount: 1}}, "extras[1].name"},
		{"too much", model.Extras{{Name: "a", Amount: model.MaxAmount + 1}}, "extras[0].amount"},
		{"nothing", model.Extras{{Name: "a"}}, "extras[0].amount"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, r := coretest.Node("n").Build(), coretest.Request(1)
			n.Extras, r.Extras = tt.in, tt.in
			for _, err := range []error{n.Validate(), r.Validate()} {
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
		})
	}
}
