package pack

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNumbersOfModelsDoNotMatter: models are numbered in the order in which nodes are
// first seen, which is another one after a restart. All prices must be the same to the
// bit, or two schedulers with the same state would decide differently.
func TestNumbersOfModelsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const models = 12
		number := make([]ModelID, models+1) // the new number of each
		for i, p := range r.Perm(models) {
			number[i+1] = ModelID(p + 1)
		}
		renumbered := func(s ModelSet) (out ModelSet) {
			for id := range ModelID(models + 1) {
				if s.Has(id) {
					out |= Set(number[id])
				}
			}
			return out
		}
		var fleet, otherFleet []Kind
		for id := ModelID(1); id <= models; id++ {
			k := Kind{emptyNode(id, 1<<r.IntN(4), int64(8+r.IntN(90)), 512), 1 + r.IntN(50)}
			fleet = append(fleet, k)
			k.Empty.Model = number[id]
			otherFleet = append(otherFleet, k)
		}
		var demands, otherDemands []Demand
		for range 40 {
			c := Class{CPU: 1000 * int64(r.IntN(3)), GPUs: 1, Milli: uint16(100 * (1 + r.IntN(3))), Models: ModelSet(r.Uint64N(1<<models)) << 1}
			if r.IntN(3) > 0 {
				c.GPUs, c.Milli = 1<<r.IntN(4), Whole
			}
			d := Demand{c, float64(1 + r.IntN(7))}
			demands = append(demands, d)
			d.Class.Models = renumbered(d.Class.Models)
			otherDemands = append(otherDemands, d)
		}
		r.Shuffle(len(otherDemands), func(i, j int) { otherDemands[i], otherDemands[j] = otherDemands[j], otherDemands[i] })
		r.Shuffle(len(otherFleet), func(i, j int) { otherFleet[i], otherFleet[j] = otherFleet[j], otherFleet[i] })
		a, b := Build(demands, fleet), Build(otherDemands, otherFleet)
		if a.value != b.value || !slices.Equal(a.cpu.points, b.cpu.points) || !slices.Equal(a.memory.points, b.memory.points) {
			t.Fatal("tables differ")
		}
		var x, y supply
		for i := range fleet {
			n := &Node{Shape: fleet[i].Empty, full: r.IntN(9), potential: r.Int64N(8 * micro)}
			x.add(n, 1)
			n.Shape.Model = number[n.Shape.Model]
			y.add(n, 1)
		}
		p, q := x.pressureOf(a), y.pressureOf(b)
		for id := ModelID(1); id <= models; id++ {
			if p.model[id] != q.model[number[id]] {
				t.Fatalf("model %d: pressure %v and %v", id, p.model[id], q.model[number[id]])
			}
			for i := range slotSizes {
				if p.slots[i][id] != q.slots[i][number[id]] {
					t.Fatalf("model %d, groups of %d: pressure %v and %v", id, slotSizes[i], p.slots[i][id], q.slots[i][number[id]])
				}
			}
		}
	})
}
