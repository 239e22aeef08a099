package place_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/coretest"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
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
		{"agent allows fewer", node().Sellable(model.NVIDIA, 1).Build(), nil, 2,
			explain.Refusal{Code: explain.Taken, Need: 2, Best: 1, Devices: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger.New()
			if err := l.SetNode(tt.node); err != nil {
				t.Fatal(err)
			}
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

func TestTallyCountsNodesAndDevices(t *testing.T) {
	l := ledger.New()
	for i := range 3 {
		n := coretest.Node(fmt.Sprintf("a%d", i)).GPUs(4, "A100").Build()
		_ = l.SetNode(n)
		r := coretest.Request(4 - i)
		l.Put(n.ID, coretest.WholeClaim(fmt.Sprint(i), n, r, model.FullMask(4-i)))
	}
	_ = l.SetNode(coretest.Node("t").GPUs(2, "T4").Build())
	res := place.Search(l, coretest.Request(3), score.DefaultWeights())
	if res.Fits() {
		t.Fatal("nothing should fit")
	}
	if got, want := res.Refused.String(), "3 nodes have too few free GPUs (2 of 3), 1 node has too few GPUs in all (2 of 3)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if res.Refused.Permanent() {
		t.Error("an eviction could help")
	}
}

// TestSearchEqualsScan: the indexed search ranks exactly like judging every node
// alone, and counts the same refusals.
func TestSearchEqualsScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		var nodes []*model.Node
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			n := coretest.DrawNode(t, fmt.Sprintf("n%d", i))
			if i > 0 && rapid.Bool().Draw(t, "twin") {
				// Twins share buckets, which is what the index is about.
				twin := *nodes[i-1]
				twin.ID = model.NodeID(fmt.Sprintf("n%d", i))
				twin.Devices = slices.Clone(twin.Devices)
				for j := range twin.Devices {
					twin.Devices[j].UUID = fmt.Sprintf("%s-%d", twin.ID, j)
				}
				n = &twin
			}
			if err := l.SetNode(n); err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, n)
		}
		w := score.DefaultWeights()
		for i := range rapid.IntRange(0, 5).Draw(t, "placed") {
			r := coretest.DrawRequest(t)
			res := place.Search(l, r, w)
			for c := range res.Candidates() {
				v, _ := l.View(c.Node)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
				break
			}
		}
		r := coretest.DrawRequest(t)
		var want []place.Candidate
		var tally explain.Tally
		for _, n := range nodes {
			v, _ := l.View(n.ID)
			grant, refusal := place.Fit(r, v)
			if refusal != nil {
				tally.Add(*refusal, 1)
				continue
			}
			card := score.Rate(r, v, grant.Set)
			want = append(want, place.Candidate{Node: n.ID, Grant: grant, Card: card, Total: w.Total(card)})
		}
		slices.SortFunc(want, func(a, b place.Candidate) int {
			va, _ := l.View(a.Node)
			vb, _ := l.View(b.Node)
			return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(vb.Held.Count(), va.Held.Count()), cmp.Compare(a.Node, b.Node))
		})
		res := place.Search(l, r, w)
		got := slices.Collect(res.Candidates())
		if fits := place.Fits(l, r); fits != (len(want) > 0) {
			t.Fatalf("Fits says %v, %d nodes fit", fits, len(want))
		}
		// Nodes of one bucket follow each other; between buckets that tie in
		// total and use, the bucket whose first node is smaller goes first. So
		// compare as ranked groups.
		if fmt.Sprint(ranks(l, got)) != fmt.Sprint(ranks(l, want)) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if fmt.Sprint(slices.Sorted(ids(got))) != fmt.Sprint(slices.Sorted(ids(want))) {
			t.Fatalf("got nodes %v, want %v", got, want)
		}
		if gotLines, wantLines := counts(res.Refused), counts(tally); gotLines != wantLines {
			t.Fatalf("refused: got %s, want %s", gotLines, wantLines)
		}
		if len(got) > 0 && len(want) > 0 && fmt.Sprint(got[0]) != fmt.Sprint(want[0]) {
			t.Fatalf("best: got %v, want %v", got[0], want[0])
		}
	})
}

func ids(cs []place.Candidate) func(func(model.NodeID) bool) {
	return func(yield func(model.NodeID) bool) {
		for _, c := range cs {
			if !yield(c.Node) {
				return
			}
		}
	}
}

func ranks(l *ledger.Ledger, cs []place.Candidate) []string {
	var out []string
	for _, c := range cs {
		v, _ := l.View(c.Node)
		out = append(out, fmt.Sprint(c.Total, v.Held.Count()))
	}
	return out
}

// counts spells a tally without details, which name an arbitrary node's.
func counts(t explain.Tally) string {
	var out []string
	for _, l := range t.Lines() {
		out = append(out, fmt.Sprint(l.Code, l.Nodes, l.Devices, l.Need, l.Best))
	}
	return fmt.Sprint(out)
}

// TestPlacedNeverOverlaps: placing what Search proposes, in any mix of arrivals
// and departures, never gives a device to two holders and never to the wrong one.
func TestPlacedNeverOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			if err := l.SetNode(coretest.DrawNode(t, fmt.Sprintf("n%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				l.Drop(model.HolderID(fmt.Sprint(rapid.IntRange(0, i).Draw(t, "who"))))
				continue
			}
			r := coretest.DrawRequest(t)
			res := place.Search(l, r, score.DefaultWeights())
			for c := range res.Candidates() {
				v, _ := l.View(c.Node)
				for slot := range c.Grant.Set.Slots() {
					d := v.Node.Devices[slot]
					taken := v.Held.Has(slot) && (r.Kind() == model.Whole || !v.Shared.Has(slot))
					if d.Health != model.Healthy || d.Vendor != r.Vendor || taken || d.NominalMemory() < r.MinMemory {
						t.Fatalf("request %+v was given %+v", r, d)
					}
				}
				if r.Kind() != model.Whole {
					for i, want := range r.Containers {
						got := 0
						for _, p := range c.Grant.Parts {
							if p.Container == i && p.Part.Kind == want.Part.Kind && p.Part.Milli == want.Part.Milli && p.Part.Profile == want.Part.Profile {
								got++
							}
						}
						if got != want.Count {
							t.Fatalf("container %d of %+v got %d parts: %+v", i, r, got, c.Grant)
						}
					}
				}
				holder := fmt.Sprint(i)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(holder), r, v.Node))
				if _, got := l.Held(model.HolderID(holder)); got&^c.Grant.Set != 0 || r.Kind() == model.Whole && got != c.Grant.Set {
					t.Fatalf("was promised %b, holds %b", c.Grant.Set, got)
				}
				break
			}
			if err := l.Audit(); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if d := l.Debt(model.NodeID(fmt.Sprintf("n%d", i))); d > 0 {
					t.Fatalf("debt %d", d)
				}
			}
		}
	})
}

// BenchmarkSearch is one decision on a half-used cluster; the cost must not
// grow with the number of nodes.
func BenchmarkSearch(b *testing.B) {
	for _, nodes := range []int{1000, 4000, 16000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			l := ledger.New()
			for i := range nodes {
				name := []string{"A100", "H100", "V100", "T4"}[i%4]
				n := coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(8, name).Link(model.NVSwitch, 12, 0, 1, 2, 3, 4, 5, 6, 7).Build()
				_ = l.SetNode(n)
				if used := i % 9; used > 0 {
					l.Put(n.ID, coretest.WholeClaim(fmt.Sprint(i), n, coretest.Request(used), model.FullMask(used)))
				}
			}
			r := coretest.Request(2)
			w := score.DefaultWeights()
			for b.Loop() {
				res := place.Search(l, r, w)
				for range res.Candidates() {
					break
				}
			}
		})
	}
}

// TestVictims: who is named is needed, helps, and is less important.
func TestVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		if err := l.SetNode(coretest.DrawNode(t, "n0")); err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "placed") {
			r := coretest.DrawRequest(t)
			res := place.Search(l, r, score.DefaultWeights())
			for c := range res.Candidates() {
				v, _ := l.View(c.Node)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
				break
			}
		}
		r := coretest.DrawRequest(t)
		fitsWithout := func(gone []model.HolderID) bool {
			v, _ := l.ViewWith("n0", func(h model.HolderID) bool { return slices.Contains(gone, h) }, nil)
			_, refusal := place.Fit(r, v)
			return refusal == nil
		}
		var lower []model.HolderID
		for _, c := range l.Claims("n0") {
			if c.Priority < r.Priority {
				lower = append(lower, c.Holder)
			}
		}
		victims, ok := place.Victims(l, r, "n0", nil)
		if ok != fitsWithout(lower) {
			t.Fatalf("says %v; without all %d less important holders it fits: %v", ok, len(lower), fitsWithout(lower))
		}
		if !ok {
			return
		}
		if !fitsWithout(victims) {
			t.Fatalf("victims %v do not help", victims)
		}
		for i, h := range victims {
			if !slices.Contains(lower, h) {
				t.Fatalf("victim %s is too important", h)
			}
			if fitsWithout(slices.Delete(slices.Clone(victims), i, i+1)) {
				t.Fatalf("victim %s of %v is named in vain", h, victims)
			}
		}
	})
}

// TestHold: what a pod keeps of a device is the most that any of its moments needs,
// in tenants too, and rounded once.
func TestHold(t *testing.T) {
	share := func(memory model.MiB, percent, milli int) model.Part {
		return model.Part{Kind: model.Share, Memory: memory, MemoryPercent: percent, Milli: milli}
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
