package gang_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// Nine shares of one GPU each would fit on the devices of one node, but
// kube-scheduler counts each of them as one of the node's 8 nvidia.com/gpu.
func TestSharesCountAsTheirExtendedResource(t *testing.T) {
	var nodes []*model.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, coretest.Node(name).GPUs(8, "A100").Extra("nvidia.com/gpu", 8).Extra("pods", 110).Build())
	}
	w := newWorld(t, nodes...)
	share := &model.Request{
		Vendor:     model.NVIDIA,
		Containers: []model.Container{{Name: "main", Count: 1, Part: model.Part{Kind: model.Share, Memory: 1 << 10, Milli: 100}}},
		Extras:     model.Extras{{Name: "nvidia.com/gpu", Amount: 1}, {Name: "pods", Amount: 1}},
	}
	a := &gang.Ask{Roles: []gang.Role{{Name: "worker", Request: share, Members: members("m", 9)}}, Min: 9, Weights: score.DefaultWeights()}
	plan := w.plan(t, a)
	if plan.Nodes != 2 || len(plan.Placements) != 9 {
		t.Errorf("%d members on %d nodes, want 9 on 2", len(plan.Placements), plan.Nodes)
	}
	for _, id := range nodesOf(plan) {
		if v, _ := w.l.View(id); v.FreeExtra("nvidia.com/gpu") < 0 {
			t.Errorf("node %s has %d nvidia.com/gpu left", id, v.FreeExtra("nvidia.com/gpu"))
		}
	}
}

// Members that ask for a resource go to the nodes that publish it, or nowhere.
func TestMembersGoWhereTheResourceIs(t *testing.T) {
	plain := coretest.Node("a").GPUs(8, "A100").Build()
	rdma := coretest.Node("b").GPUs(8, "A100").Extra("rdma/hca", 3).Build()
	a := ask(3, 2)
	a.Roles[0].Request.Extras = model.Extras{{Name: "rdma/hca", Amount: 1}}
	if plan := newWorld(t, plain, rdma).plan(t, a); plan.Nodes != 1 || plan.Placements[0].Node != "b" {
		t.Errorf("got %v", plan)
	}
	newWorld(t, plain).refuse(t, a)
	more := ask(4, 2)
	more.Roles[0].Request = a.Roles[0].Request
	newWorld(t, plain, rdma).refuse(t, more)
}
