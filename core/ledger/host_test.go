package ledger_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestCoversAddsUp: a node covers a request exactly if, of every resource the request
// needs, the node has at least that much more than its claims use; hypothetical views
// included. What is short is named exactly when it does not.
func TestCoversAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		n := coretest.Node("n").Build()
		n.Host = model.Host{CPU: rapid.Int64Range(0, 6).Draw(t, "cpu"), Memory: 8}
		n.Extras = coretest.DrawExtras(t, 6)
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
		var claims []ledger.Claim
		for i := range rapid.IntRange(0, 5).Draw(t, "claims") {
			claims = append(claims, ledger.Claim{
				Holder: model.HolderID(fmt.Sprint(i)), Host: model.Host{CPU: rapid.Int64Range(0, 2).Draw(t, "cpu")}, Extras: coretest.DrawExtras(t, 2),
			})
		}
		gone := func(h model.HolderID) bool { return h == "1" }
		for _, c := range claims[:len(claims)/2] {
			l.Put("n", c)
		}
		hypothesis, _ := l.ViewWith("n", gone, claims[len(claims)/2:])
		for _, c := range claims {
			l.Put("n", c)
		}
		l.Drop("1")
		v, _ := l.View("n")
		left := map[string]int64{"cpu": n.Host.CPU}
		for _, e := range n.Extras {
			left[e.Name] = e.Amount
		}
		for _, c := range claims {
			if gone(c.Holder) {
				continue
			}
			left["cpu"] -= c.Host.CPU
			for _, e := range c.Extras {
				left[e.Name] -= e.Amount
			}
		}
		r := &model.Request{Host: model.Host{CPU: rapid.Int64Range(0, 3).Draw(t, "cpu")}, Extras: coretest.DrawExtras(t, 3)}
		want := r.Host.CPU == 0 || r.Host.CPU <= left["cpu"]
		for _, e := range r.Extras {
			want = want && left[e.Name] >= e.Amount
		}
		for name, v := range map[string]ledger.View{"now": v, "hypothesis": hypothesis} {
			if len(claims) > 1 && len(claims)/2 < 2 && name == "hypothesis" {
				continue // the claim that goes is one of those that come
			}
			if missing, short := v.Shortage(r); v.Covers(r) != want || short == want {
				t.Fatalf("%s: covers %v, short of %v, want %v; left %v for %+v", name, v.Covers(r), missing, want, left, r)
			}
		}
	})
}

func TestShortage(t *testing.T) {
	l := ledger.New()
	n := coretest.Node("n").Extra("nvidia.com/gpu", 8).Extra("pods", 2).Build()
	n.Host = model.Host{CPU: 4000, Memory: 1 << 30}
	if err := l.SetNode(n); err != nil {
		t.Fatal(err)
	}
	l.Put("n", ledger.Claim{Holder: "a", Host: model.Host{CPU: 3000}, Extras: model.Extras{{Name: "nvidia.com/gpu", Amount: 9}, {Name: "rdma/hca", Amount: 1}}})
	v, _ := l.View("n")
	for _, test := range []struct {
		request model.Request
		want    model.Shortage
	}{
		{model.Request{Host: model.Host{CPU: 1000}}, model.Shortage{}},
		{model.Request{Host: model.Host{CPU: 2000}, Extras: model.Extras{{Name: "nvidia.com/gpu", Amount: 1}}}, model.Shortage{Name: "cpu", Need: 2000, Free: 1000, Total: 4000}},
		{model.Request{Host: model.Host{CPU: 2000, Memory: 2 << 30}, Extras: model.Extras{{Name: "rdma/hca", Amount: 2}}}, model.Shortage{Name: "memory", Need: 2 << 30, Free: 1 << 30, Total: 1 << 30}},
		{model.Request{Extras: model.Extras{{Name: "nvidia.com/gpu", Amount: 1}, {Name: "pods", Amount: 1}}}, model.Shortage{Name: "nvidia.com/gpu", Need: 1, Free: -1, Total: 8}},
		{model.Request{Extras: model.Extras{{Name: "nvidia.com/gpu", Amount: 1}, {Name: "pods", Amount: 1}, {Name: "rdma/hca", Amount: 2}}}, model.Shortage{Name: "rdma/hca", Need: 2}},
	} {
		got, short := v.Shortage(&test.request)
		if got != test.want || short != (test.want.Name != "") {
			t.Errorf("%+v: %+v, want %+v", test.request, got, test.want)
		}
	}
	// A node that publishes more is another inventory, but of the same kind.
	more := *n
	more.Extras = n.Extras.Plus(model.Extras{{Name: "rdma/hca", Amount: 4}})
	before, kinds := l.FleetVersion(), l.KindsVersion()
	if err := l.SetNode(&more); err != nil || l.FleetVersion() == before || l.KindsVersion() != kinds {
		t.Errorf("%v, fleet version %d then %d, kinds version %d then %d", err, before, l.FleetVersion(), kinds, l.KindsVersion())
	}
	if v, _ := l.View("n"); v.FreeExtra("rdma/hca") != 3 {
		t.Errorf("%d left, want 3: the claim counts once the node publishes the resource", v.FreeExtra("rdma/hca"))
	}
}
