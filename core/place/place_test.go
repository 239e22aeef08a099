package place_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/test/coretest"
)

func TestFitRefusals(t *testing.T) {
	node := func() *coretest.NodeBuilder { return coretest.Node("n").GPUs(4, "A100-SXM4-80GB") }
	tests := []struct {
		name    string
		node    *model.Node
		request func(*model.Request)
		count   int
		want    explain.Refusal
	}{
		{"no device of the vendor", node().Build(), func(r *model.Request) { r.Vendor = model.AMD }, 1,
			explain.Refusal{Code: explain.NoDevices, Need: 1}},
		{"more than the node ever has", node().Build(), nil, 5,
			explain.Refusal{Code: explain.TooFew, Need: 5, Best: 4, Devices: 4}},
		{"missing label", node().Build(), func(r *model.Request) { r.Attributes = []model.Want{{Key: "accelerator", Values: []string{"x"}}} }, 1,
			explain.Refusal{Code: explain.WrongNode, Need: 1, Devices: 4, Detail: "accelerator=x"}},
		{"other model", node().Build(), func(r *model.Request) { r.UseModels = []model.GPUModel{model.ParseModel("A10")} }, 1,
			explain.Refusal{Code: explain.WrongModel, Need: 1, Devices: 4, Detail: "a10"}},
		{"refused model", node().Build(), func(r *model.Request) { r.AvoidModels = []model.GPUModel{model.ParseModel("A100")} }, 1,
			explain.Refusal{Code: explain.WrongModel, Need: 1, Devices: 4, Detail: "other than a100"}},
		{"profile hands out other models", node().Build(), func(r *model.Request) { r.ProfileModels = []model.GPUModel{model.ParseModel("T4")} }, 1,
			explain.Refusal{Code: explain.WrongModel, Need: 1, Devices: 4, Detail: "t4"}},
		{"index not there", node().Build(), func(r *model.Request) { r.UseIndexes = []int{1, 9} }, 2,
			explain.Refusal{Code: explain.WrongDevice, Need: 2, Best: 1, Devices: 4, Detail: "index"}},
		{"too small", node().Build(), func(r *model.Request) { r.MinMemory = 81 << 10 }, 1,
			explain.Refusal{Code: explain.SmallMemory, Need: 81 << 10, Best: 80 << 10, Devices: 4}},
		{"unhealthy", node().Health(0, model.Failed).Health(1, model.Suspect).Build(), nil, 3,
			explain.Refusal{Code: explain.Unhealthy, Need: 3, Best: 2, Devices: 4}},
		{"cordoned", node().Cordon(0).Cordon(3).Build(), nil, 3,
			explain.Refusal{Code: explain.DevicesCordoned, Need: 3, Best: 2, Devices: 4}},
		{"cordoned and unhealthy, without the cordon it would fit", node().Cordon(0).Health(1, model.Failed).Build(), nil, 3,
			explain.Refusal{Code: explain.DevicesCordoned, Need: 3, Best: 2, Devices: 4}},
		{"cordoned and unhealthy, without the cordon it would not", node().Cordon(0).Health(0, model.Failed).Health(1, model.Failed).Cordon(2).Build(), nil, 3,
			explain.Refusal{Code: explain.Unhealthy, Need: 3, Best: 2, Devices: 4}},
		{"a cordoned device has no slices, shares or turns", node().Cordon(0).Cordon(1).Cordon(2).Cordon(3).Build(), func(r *model.Request) {
			r.Containers[0].Part = model.Part{Kind: model.Share, Memory: 1}
		}, 1,
			explain.Refusal{Code: explain.DevicesCordoned, Need: 1, Devices: 4}},
		{"no shares by amount", each(node().Build(), func(d *model.Device) { d.NoAmounts = true }), func(r *model.Request) {
			r.Containers[0].Part = model.Part{Kind: model.Share, Memory: 1}
		}, 1,
			explain.Refusal{Code: explain.TooSmall, Need: 1, Devices: 4, Detail: "1 MiB free"}},
		{"one turn for each container, by its own name", each(node().Build(), func(d *model.Device) { d.Tenants, d.OnePerContainer = 4, true }), func(r *model.Request) {
			r.Containers[0].Part = model.Part{Kind: model.Share, Turn: true}
		}, 2,
			explain.Refusal{Code: explain.TooFew, Need: 2, Devices: 4}},
		{"agent allows fewer", node().Sellable(model.NVIDIA, 1).Build(), nil, 2,
			explain.Refusal{Code: explain.Taken, Need: 2, Best: 1, Devices: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := coretest.Ledger(t, tt.node)
			r := coretest.Request(tt.count)
			if tt.request != nil {
				tt.request(r)
			}
			v, _ := l.View("n")
			grant, refusal := place.Fit(r, v)
			if refusal == nil || *refusal != tt.want {
				t.Errorf("got %+v, %+v, want %+v", grant, refusal, tt.want)
			}
		})
	}
}

// each changes every device of a node.
func each(n *model.Node, change func(*model.Device)) *model.Node {
	for i := range n.Devices {
		change(&n.Devices[i])
	}
	return n
}

func TestTallyCountsNodesAndDevices(t *testing.T) {
	l := coretest.Ledger(t)
	for i := range 3 {
		n := coretest.Node(fmt.Sprintf("a%d", i)).GPUs(4, "A100").Build()
		_ = l.SetNode(n)
		r := coretest.Request(4 - i)
		l.Put(n.ID, coretest.WholeClaim(fmt.Sprint(i), n, r, model.FullMask(4-i)))
	}
	_ = l.SetNode(coretest.Node("t").GPUs(2, "T4").Build())
	res := place.Ask(l, coretest.Request(3))
	if len(res.Groups) > 0 {
		t.Fatal("nothing should fit")
	}
	if got, want := res.Refused.String(), "0/4 nodes fit: 3 have too few free GPUs (2 of 3), 1 has too few GPUs in all (2 of 3)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if res.Refused.Permanent() {
		t.Error("an eviction could help")
	}
}

// TestHold: what a pod keeps of a device is the most that any of its moments needs,
// in tenants too, and rounded once.
func TestHold(t *testing.T) {
	share := func(memory model.MiB, percent, milli int) model.Part {
		return model.Part{Kind: model.Share, Memory: memory, MemoryMilli: percent * 10, Milli: milli}
	}
	type c = model.Container
	tests := []struct {
		name       string
		containers []c
		want       []model.Part
	}{
		{"mains add up", []c{{Part: share(10, 0, 100)}, {Part: share(20, 0, 200)}}, []model.Part{share(10, 0, 100), share(20, 0, 200)}},
		{"a larger init is held", []c{{Phase: model.Init, Part: share(50, 0, 100)}, {Part: share(20, 0, 200)}}, []model.Part{share(50, 0, 200)}},
		{"a smaller init is not", []c{{Phase: model.Init, Part: share(5, 0, 100)}, {Part: share(20, 0, 200)}}, []model.Part{share(20, 0, 200)}},
		{"inits follow each other", []c{{Phase: model.Init, Part: share(50, 0, 0)}, {Phase: model.Init, Part: share(40, 0, 0)}}, []model.Part{share(50, 0, 0)}},
		{"init beside a sidecar", []c{{Phase: model.Sidecar, Part: share(10, 0, 0)}, {Phase: model.Init, Part: share(50, 0, 0)}, {Part: share(1, 0, 0)}}, []model.Part{share(60, 0, 0), share(0, 0, 0)}},
		{"sidecar after the init", []c{{Phase: model.Init, Part: share(50, 0, 0)}, {Phase: model.Sidecar, Part: share(10, 0, 0)}}, []model.Part{share(50, 0, 0)}},
		{"percent", []c{{Phase: model.Init, Part: share(0, 66, 0)}, {Part: share(0, 33, 0)}, {Part: share(0, 33, 0)}}, []model.Part{share(0, 66, 0), share(0, 0, 0)}},
		{"percent and MiB", []c{{Phase: model.Init, Part: share(0, 50, 0)}, {Part: share(9, 0, 0)}}, []model.Part{share(9, 50, 0)}},
		{"one more tenant", []c{{Phase: model.Sidecar, Part: share(1, 0, 0)}, {Phase: model.Init, Part: share(1, 0, 0)}}, []model.Part{share(2, 0, 0), share(0, 0, 0)}},
		{"a turn", []c{{Phase: model.Init, Part: model.Part{Kind: model.Share, Turn: true}}}, []model.Part{{Kind: model.Share, Turn: true}}},
		{"slices stay", []c{{Phase: model.Init, Part: model.Part{Kind: model.Slice, Profile: "1g.5gb"}}}, []model.Part{{Kind: model.Slice, Profile: "1g.5gb"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &model.Request{Vendor: model.NVIDIA, Containers: tt.containers}
			var parts []place.GrantedPart
			for i, c := range tt.containers {
				parts = append(parts, place.GrantedPart{Container: i, Part: c.Part})
			}
			var got []model.Part
			for _, p := range place.Hold(r, parts) {
				got = append(got, p.Part)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
