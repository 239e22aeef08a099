package place_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/test/coretest"
)

// nearEnough is the straightforward second implementation of what a grant must
// satisfy.
func nearEnough(r *model.Request, v ledger.View, g place.Grant) bool {
	if !v.Kind.Links.Bonded(g.Set, r.Require.Bond) {
		return false
	}
	known := map[int]int{}
	for slot := range v.Devices(r.Vendor).Slots() {
		if d := v.Node.Devices[slot]; d.NUMA != model.NUMAUnknown {
			known[d.NUMA]++
		}
	}
	if v.Node.NUMA == model.AnyNUMA || len(known) == 0 {
		return true
	}
	// fits says whether so few NUMA nodes could hold k devices of an empty node.
	fits := func(nodes, k int) bool {
		var try func(left []int, nodes, k int) bool
		try = func(left []int, nodes, k int) bool {
			if k <= 0 {
				return true
			}
			if nodes == 0 || len(left) == 0 {
				return false
			}
			return try(left[1:], nodes-1, k-left[0]) || try(left[1:], nodes, k)
		}
		var sizes []int
		for _, n := range known {
			sizes = append(sizes, n)
		}
		return try(sizes, nodes, k)
	}
	aligned := func(set model.Mask) bool {
		touched := map[int]bool{}
		for slot := range set.Slots() {
			touched[v.Node.Devices[slot].NUMA] = true
		}
		n := len(touched)
		return n <= 1 || v.Node.NUMA == model.FewestNUMA && !touched[model.NUMAUnknown] && !fits(n-1, set.Count())
	}
	if !v.Node.NUMAPerContainer {
		return aligned(g.Set)
	}
	if r.Kind() == model.Whole {
		for _, own := range r.Share(g.Set) {
			if !aligned(own) {
				return false
			}
		}
		return true
	}
	for i := range r.Containers {
		var own model.Mask
		for _, p := range g.Parts {
			if p.Container == i {
				own = own.With(p.Slot)
			}
		}
		if !aligned(own) {
			return false
		}
	}
	return true
}

// islands is a node of two NVLink quads, each on a NUMA node of its own.
func islands() *coretest.NodeBuilder {
	b := coretest.Node("n").GPUs(8, "V100").Link(model.NVLink, 2, 0, 1, 2, 3).Link(model.NVLink, 2, 4, 5, 6, 7)
	n := b.Build()
	for i := range n.Devices {
		n.Devices[i].NUMA = i / 4
	}
	return b
}

func TestNearness(t *testing.T) {
	nvlink := func(r *model.Request) { r.Require.Link = model.NVLink }
	containers := func(counts ...int) func(*model.Request) {
		return func(r *model.Request) {
			r.Containers = nil
			for _, c := range counts {
				r.Containers = append(r.Containers, model.Container{Count: c})
			}
		}
	}
	refused := func(code explain.Code, need, best int64, detail string) *explain.Refusal {
		return &explain.Refusal{Code: code, Need: need, Best: best, Devices: 8, Detail: detail}
	}
	single := islands().NUMA(model.OneNUMA, false).Build()
	restricted := islands().NUMA(model.FewestNUMA, false).Build()
	perContainer := islands().NUMA(model.OneNUMA, true).Build()
	byOne, byFew := "on one NUMA node as kubelet's policy single-numa-node demands", "on the fewest NUMA nodes as kubelet's policy restricted demands"
	tests := []struct {
		name    string
		node    *model.Node
		held    model.Mask
		count   int
		request func(*model.Request)
		want    model.Mask
		refusal *explain.Refusal
	}{
		{"the linked four", islands().Build(), 0b1, 4, nvlink, 0b11110000, nil},
		{"linked ones are taken", islands().Build(), 0b00110011, 4, nvlink, 0, refused(explain.FreeApart, 4, 2, "joined by NVLink")},
		{"never linked", islands().Build(), 0, 5, nvlink, 0, refused(explain.Apart, 5, 4, "joined by NVLink")},
		{"never linked, and taken: the lasting reason", islands().Build(), 0xff, 5, nvlink, 0, refused(explain.Apart, 5, 4, "joined by NVLink")},
		{"too few free comes before links", islands().Build(), 0b11111, 4, nvlink, 0, refused(explain.Taken, 4, 3, "")},
		{"one device needs no link", coretest.Node("n").GPUs(8, "V100").Build(), 0b1, 1, nvlink, 0b10, nil},
		{"one NUMA node", islands().Build(), 0b1, 4, func(r *model.Request) { r.Require.NUMA = true }, 0b11110000, nil},
		{"NUMA nodes unknown", coretest.Node("n").GPUs(8, "V100").Build(), 0, 2, func(r *model.Request) { r.Require.NUMA = true }, 0, refused(explain.Apart, 2, 1, "on one NUMA node")},
		{"preferred, not to be had", islands().Build(), 0b00110011, 3, func(r *model.Request) { r.Prefer.Link = model.NVLink }, 0b01001100, nil},
		{"no rack", islands().Domains("z").Build(), 0, 1, func(r *model.Request) { r.Require.Level = model.Level{Name: "rack", Label: "l/rack", Depth: 1} }, 0, refused(explain.WrongDomain, 1, 0, "rack (label l/rack)")},
		{"a rack", islands().Domains("z", "r").Build(), 0, 1, func(r *model.Request) { r.Require.Level = model.Level{Name: "rack", Depth: 1} }, 0b1, nil},
		{"the level node", islands().Build(), 0, 1, func(r *model.Request) { r.Require.Level = model.Level{Name: "node", Depth: model.NodeDepth} }, 0b1, nil},
		{"single-numa-node: split", single, 0b01110111, 2, nil, 0, refused(explain.FreeApart, 2, 1, byOne)},
		{"single-numa-node: the node that has room", single, 0b00000111, 2, nil, 0b110000, nil},
		{"single-numa-node: never", single, 0, 5, nil, 0, refused(explain.Apart, 5, 4, byOne)},
		{"single-numa-node, scope pod: containers together", single, 0, 1, containers(4, 2), 0, refused(explain.Apart, 6, 4, byOne)},
		{"scope container: containers apart", perContainer, 0, 1, containers(4, 2), 0b111111, nil},
		{"scope container: no lower ones that split", perContainer, 0b11, 1, containers(2, 3), 0b01111100, nil},
		{"scope container: one each", perContainer, 0b01110111, 1, containers(1, 1), 0b10001000, nil},
		{"scope container: taken", perContainer, 0b01110111, 1, containers(2), 0, refused(explain.FreeApart, 2, 1, byOne)},
		{"restricted: split", restricted, 0b01110111, 2, nil, 0, refused(explain.FreeApart, 2, 1, byFew)},
		{"restricted: more than one could hold", restricted, 0, 5, nil, 0b11111, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := coretest.Ledger(t, tt.node)
			if tt.held != 0 {
				l.Put("n", coretest.WholeClaim("other", tt.node, coretest.Request(tt.held.Count()), tt.held))
			}
			r := coretest.Request(tt.count)
			if tt.request != nil {
				tt.request(r)
			}
			v, _ := l.View("n")
			grant, refusal := place.Fit(r, v)
			if grant.Set != tt.want || (refusal == nil) != (tt.refusal == nil) || refusal != nil && *refusal != *tt.refusal {
				t.Errorf("got %b, %+v, want %b, %+v", grant.Set, refusal, tt.want, tt.refusal)
			}
		})
	}
}

// TestNearParts: shares of several cards keep to linked ones.
func TestNearParts(t *testing.T) {
	n := islands().Build()
	l := coretest.Ledger(t, n)
	// Three cards of the first island are held whole.
	l.Put("n", coretest.WholeClaim("other", n, coretest.Request(3), 0b111))
	r := &model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Count: 2, Part: model.Part{Kind: model.Share, Memory: 1 << 10}}}}
	r.Require.Link = model.NVLink
	v, _ := l.View("n")
	grant, refusal := place.Fit(r, v)
	if refusal != nil || grant.Set != 0b110000 {
		t.Errorf("got %b, %v", grant.Set, refusal)
	}
	l.Put("n", coretest.WholeClaim("more", n, coretest.Request(3), 0b11100000))
	v, _ = l.View("n")
	if _, refusal = place.Fit(r, v); refusal == nil || refusal.String() != "too few free GPUs joined by NVLink (1 of 2)" {
		t.Errorf("got %v", refusal)
	}
}

// TestGrantsAreNear: on nodes in any state of use, what is granted is as near as the
// request and the node's kubelet require, by a second implementation of both.
func TestGrantsAreNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t, coretest.DrawNode(t, "n0"))
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			r := coretest.DrawRequest(t)
			v, _ := l.View("n0")
			grant, refusal := place.Fit(r, v)
			if refusal != nil {
				continue
			}
			if !nearEnough(r, v, grant) {
				t.Fatalf("request %+v on %+v was given %b", r, v.Node, grant.Set)
			}
			l.Put("n0", grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
			if rapid.Bool().Draw(t, "leave") {
				l.Drop(model.HolderID(fmt.Sprint(rapid.IntRange(0, i).Draw(t, "holder"))))
			}
		}
	})
}
