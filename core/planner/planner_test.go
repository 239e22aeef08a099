package planner_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// drawFleet makes a few nodes, many of them alike.
func drawFleet(t *rapid.T, l *ledger.Ledger) []*model.Node {
	var nodes []*model.Node
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := coretest.DrawNode(t, fmt.Sprintf("n%d", i))
		if i > 0 && rapid.Bool().Draw(t, "twin") {
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
	return nodes
}

// TestCandidatesAreAllThatFit: for any request and weights, exactly the nodes that can
// take it are candidates, each once, with the devices it would get. A planner that
// followed the ledger's changes gives the same answer as a new one, and the reasons
// count the other nodes.
func TestCandidatesAreAllThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		old := planner.New(l)
		nodes := drawFleet(t, l)
		for i, n := range nodes {
			if rapid.Bool().Draw(t, "publishes") {
				more := *n
				more.Extras = coretest.DrawExtras(t, 6)
				more.Host = model.Host{CPU: 5, Memory: 5 << 19}
				if nodes[i] = &more; l.SetNode(&more) != nil {
					t.Fatal("refused")
				}
			}
		}
		w := score.DefaultWeights()
		if rapid.IntRange(0, 3).Draw(t, "weights") == 0 {
			w = score.Weights{score.TypeMatch: 1}
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "placed") {
			r := coretest.DrawRequest(t)
			r.Extras = coretest.DrawExtras(t, 2)
			if c, ok := old.Best(r, w); ok {
				v, _ := l.View(c.Node)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
			}
		}
		r := coretest.DrawRequest(t)
		r.Extras = coretest.DrawExtras(t, 2)
		// Half MiBs: the index sees whole ones.
		r.Host.Memory = model.Bytes(rapid.IntRange(0, 6).Draw(t, "memory")) << 19
		deviceFits := false
		var want []model.NodeID
		var tally explain.Tally
		for _, n := range nodes {
			v, _ := l.View(n.ID)
			if _, refusal := place.Fit(r, v); refusal != nil {
				tally.Add(*refusal, 1)
			} else {
				deviceFits = true
				if enough(l, n, r) {
					want = append(want, n.ID)
				}
			}
		}
		var got []model.NodeID
		for c := range old.Candidates(r, w) {
			v, _ := l.View(c.Node)
			if grant, refusal := old.Fit(r, v); refusal != nil || fmt.Sprint(grant) != fmt.Sprint(c.Grant) {
				t.Fatalf("%s: proposed %v, would get %v, %v", c.Node, c.Grant, grant, refusal)
			}
			got = append(got, c.Node)
		}
		if best, ok := old.Best(r, w); ok != (len(got) > 0) || ok && best.Node != got[0] {
			t.Fatalf("best is %v, candidates are %v", best, got)
		}
		var fresh []model.NodeID
		for c := range planner.New(l).Candidates(r, w) {
			fresh = append(fresh, c.Node)
		}
		if !slices.Equal(got, fresh) {
			t.Fatalf("grown with the ledger it says %v, new %v", got, fresh)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("proposed %v, fits on %v", got, want)
		}
		if fits := len(place.Ask(l, r).Groups) > 0; fits != deviceFits {
			t.Fatalf("Fits says %v, devices fit: %v", fits, deviceFits)
		}
		if reasons := old.Reasons(r); counts(reasons) != counts(tally) {
			t.Fatalf("refused: got %s, want %s", counts(reasons), counts(tally))
		}
	})
}

// enough adds up, independently of the ledger, whether a node has what a request needs
// beside devices.
func enough(l *ledger.Ledger, n *model.Node, r *model.Request) bool {
	memory := n.Host.Memory
	for _, c := range l.Claims(n.ID) {
		memory -= c.Host.Memory
	}
	for _, need := range r.Extras {
		free := n.Extras.Amount(need.Name)
		for _, c := range l.Claims(n.ID) {
			free -= c.Extras.Amount(need.Name)
		}
		if free < need.Amount {
			return false
		}
	}
	return r.Host.Memory == 0 || r.Host.Memory <= memory
}

// TestRateAgreesWithCandidates: the node proposed first has the best total, as far
// as whole points go.
func TestRateAgreesWithCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		p := planner.New(l)
		nodes := drawFleet(t, l)
		w := score.DefaultWeights()
		for i := range rapid.IntRange(0, 8).Draw(t, "placed") {
			r := coretest.DrawRequest(t)
			if c, ok := p.Best(r, w); ok {
				v, _ := l.View(c.Node)
				l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint(i)), r, v.Node))
			}
		}
		r := coretest.DrawRequest(t)
		best, ok := p.Best(r, w)
		if !ok {
			return
		}
		first, refusal := p.Rate(r, w, best.Node)
		if refusal != nil {
			t.Fatal(refusal)
		}
		for _, n := range nodes {
			if slices.ContainsFunc(n.Devices, func(d model.Device) bool { return d.Vendor != n.Devices[0].Vendor || d.Model != n.Devices[0].Model }) {
				continue // of these the index sees only a part, and offers them last
			}
			other, refusal := p.Rate(r, w, n.ID)
			// Scores are whole points, costs are not; and points end at 0.
			if refusal == nil && other.Total > first.Total+100 && first.Card[score.Fragmentation] > 0 {
				t.Fatalf("%s is proposed with %d %v (%v), %s would have %d %v (%v)", best.Node, first.Total, first.Card, first.Fleet, n.ID, other.Total, other.Card, other.Fleet)
			}
		}
	})
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
		l := coretest.Ledger(t)
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			if err := l.SetNode(coretest.DrawNode(t, fmt.Sprintf("n%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		p := planner.New(l)
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				l.Drop(model.HolderID(fmt.Sprint(rapid.IntRange(0, i).Draw(t, "holder"))))
				continue
			}
			r := coretest.DrawRequest(t)
			for c := range p.Candidates(r, score.DefaultWeights()) {
				v, _ := l.View(c.Node)
				for slot := range c.Grant.Set.Slots() {
					d := v.Node.Devices[slot]
					taken := v.Held.Has(slot) && (r.Kind() == model.Whole && v.Turns(slot) == 0 || !v.Shared.Has(slot))
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

// BenchmarkDecision is one decision on a half-used cluster; the cost must not
// grow with the number of nodes.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range []int{1000, 4000, 16000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) { decide(b, nodes, nil) })
	}
	// As pods are in a cluster: each counts as a pod, and by the name of its devices.
	b.Run("extras/4000", func(b *testing.B) {
		decide(b, 4000, model.Extras{{Name: "ephemeral-storage", Amount: 1 << 40}, {Name: "nvidia.com/gpu", Amount: 8}, {Name: "pods", Amount: 110}})
	})
}

func decide(b *testing.B, nodes int, extras model.Extras) {
	r := coretest.Request(2)
	if extras != nil {
		r.Extras = model.Extras{{Name: "nvidia.com/gpu", Amount: 2}, {Name: "pods", Amount: 1}}
	}
	l := coretest.Ledger(b)
	for i := range nodes {
		name := []string{"A100", "H100", "V100", "T4"}[i%4]
		n := coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(8, name).Link(model.NVSwitch, 12, 0, 1, 2, 3, 4, 5, 6, 7).Build()
		n.Extras = extras
		_ = l.SetNode(n)
		if used := i % 9; used > 0 {
			l.Put(n.ID, coretest.WholeClaim(fmt.Sprint(i), n, coretest.Request(used), model.FullMask(used)))
		}
	}
	w := score.DefaultWeights()
	p := planner.New(l)
	p.Best(r, w) // sorts the nodes once
	for b.Loop() {
		// Every decision follows a change, as in production.
		c, _ := p.Best(r, w)
		v, _ := l.View(c.Node)
		l.Put(c.Node, c.Grant.Claim("new", r, v.Node))
		p.Sync()
		l.Drop("new")
	}
}
