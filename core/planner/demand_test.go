package planner_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// cut is a node of one device that is offered in MIG slices, or not.
func cut(t *testing.T, l *ledger.Ledger, id, name string, memory model.MiB, mode bool) {
	t.Helper()
	d := model.Device{UUID: id, Vendor: model.NVIDIA, Model: model.ParseModel(name), Memory: memory, NUMA: model.NUMAUnknown}
	if mode {
		g := mig.Lookup(d.Model, memory)
		if g == nil {
			t.Fatalf("no MIG profiles of %s", name)
		}
		d.MIG, d.MIGSlices = g.Profiles(), g.Slices()
	}
	if err := l.SetNode(&model.Node{ID: model.NodeID(id), Devices: []model.Device{d}}); err != nil {
		t.Fatal(err)
	}
}

// TestSlicesOnMixedFleets: a slice is charged its part of a device that can be cut so.
// Devices that cannot, of other models or of the same with MIG off, do not count.
func TestSlicesOnMixedFleets(t *testing.T) {
	l := ledger.New()
	p := planner.New(l)
	slice := func(profile string) int64 {
		p.Sync()
		return p.Demand(&model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Count: 1, Part: model.Part{Kind: model.Slice, Profile: profile}}}})
	}
	cut(t, l, "t4", "T4", 16*1024, false)
	if got := slice("7g.80gb"); got != 1000 {
		t.Errorf("without any device that can take it, 7g.80gb counts %d", got)
	}
	cut(t, l, "off", "H100", 80*1024, false)
	cut(t, l, "on", "H100", 80*1024, true)
	cut(t, l, "small", "A100", 40*1024, true)
	for profile, want := range map[string]int64{"7g.80gb": 1000, "3g.40gb": 500, "1g.5gb": 125} {
		if got := slice(profile); got != want {
			t.Errorf("%s counts %d, want %d", profile, got, want)
		}
	}
}

// TestDemandIsNeverBelow: whichever node takes a request, it takes no more than
// MostDemand, and of slices no more than is charged.
func TestDemandIsNeverBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		p := planner.New(l)
		drawFleet(t, l)
		r := coretest.DrawRequest(t)
		if r.Kind() == model.Share {
			// A share of an init container may be held beside those of others, where one is in
			// MiB and the other in percent; it is counted as if they were one.
			r.Containers[0].Phase = model.Main
		}
		least, most := p.Demand(r), p.MostDemand(r)
		if least > most || least <= 0 && r.Count() > 0 {
			t.Fatalf("takes %d to %d", least, most)
		}
		for c := range p.Candidates(r, score.DefaultWeights()) {
			v, _ := l.View(c.Node)
			took := taken(r, v, c.Grant)
			if took > most {
				t.Fatalf("%s: takes %d, counted %d at most", c.Node, took, most)
			}
			if r.Kind() == model.Slice && took > least {
				t.Fatalf("%s: takes %d, charged %d", c.Node, took, least)
			}
		}
	})
}

// taken is what a grant takes of all devices together, from the definition: of a shared
// device the larger of memory and compute.
func taken(r *model.Request, v ledger.View, g place.Grant) int64 {
	if len(g.Parts) == 0 {
		return 1000 * int64(g.Set.Count())
	}
	var cuts, turns int64
	compute, memory := map[int]int64{}, map[int]model.MiB{}
	for _, part := range place.Hold(r, g.Parts) {
		d := &v.Node.Devices[part.Slot]
		switch p := part.Part; {
		case p.Kind == model.Slice:
			cuts += 1000 * int64(d.MIG[mig.Find(d.MIG, p.Profile)].Size) / int64(d.MIGSlices)
		case p.Turn:
			turns += 1000 / int64(d.Tenants)
		default:
			compute[part.Slot] += int64(p.Milli)
			memory[part.Slot] += p.MemoryOn(d)
		}
	}
	sum := cuts + turns
	for slot, milli := range compute {
		if d := &v.Node.Devices[slot]; d.Memory > 0 {
			milli = max(milli, 1000*int64(memory[slot])/int64(d.Memory))
		}
		sum += milli
	}
	return sum
}

func ExamplePlanner_Demand() {
	l := ledger.New()
	p := planner.New(l)
	for id, memory := range map[model.NodeID]model.MiB{"t4": 16 * 1024, "a100": 80 * 1024} {
		_ = l.SetNode(&model.Node{ID: id, Devices: []model.Device{{UUID: string(id), Vendor: model.NVIDIA, Memory: memory, NUMA: model.NUMAUnknown}}})
	}
	share := func(memory model.MiB) *model.Request {
		return &model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Count: 1, Part: model.Part{Kind: model.Share, Memory: memory}}}}
	}
	fmt.Println(p.Demand(share(8*1024)), p.MostDemand(share(8*1024)))
	fmt.Println(p.Demand(share(20*1024)), p.MostDemand(share(20*1024))) // more than a T4 has
	// Output:
	// 100 500
	// 250 250
}
