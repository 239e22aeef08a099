package sim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/pack"
)

// drawClass draws a request: shares, whole GPUs, or CPU alone, some of them for one
// model only.
func drawClass(t *rapid.T) pack.Class {
	c := pack.Class{CPU: 1000 * rapid.Int64Range(0, 12).Draw(t, "cpu"), Memory: 1024 * rapid.Int64Range(0, 48).Draw(t, "memory")}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return c
	case 1:
		c.GPUs, c.Milli = uint8(rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "GPUs")), pack.Whole
	default:
		c.GPUs, c.Milli = 1, uint16(rapid.IntRange(1, 9).Draw(t, "tenths")*100)
	}
	if rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
		c.Models = pack.Set(pack.ModelID(rapid.IntRange(1, 2).Draw(t, "model")))
	}
	return c
}

// scan rates every node; -1 when the class fits on none. The first of equal cost wins by
// the order that the test gives nodes.
func scan(p pack.Policy, c *pack.Class, shapes []pack.Shape) (best int, chosen pack.Rating) {
	best = -1
	for i := range shapes {
		if !shapes[i].Fits(c) {
			continue
		}
		r := p.Rate(c, &pack.Node{Shape: shapes[i]})
		if best < 0 || r.Cost < chosen.Cost {
			best, chosen = i, r
		}
	}
	return best, chosen
}

// TestBaselinesInIndex: under every baseline the index chooses what a look at all nodes
// chooses, over random arrivals and departures.
func TestBaselinesInIndex(t *testing.T) {
	workload := []pack.Demand{
		{Class: pack.Class{GPUs: 1, Milli: 500, CPU: 4000}, Count: 5}, {Class: pack.Class{GPUs: 1, Milli: pack.Whole}, Count: 4},
		{Class: pack.Class{CPU: 1000}, Count: 3}, {Class: pack.Class{GPUs: 8, Milli: pack.Whole, Models: 2}, Count: 1},
	}
	for name, policy := range map[string]func() pack.Policy{
		"fgd":        func() pack.Policy { return NewFGD(NewFragmentation(workload, false)) },
		"bestfit":    func() pack.Policy { return BestFit() },
		"dotprod":    func() pack.Policy { return DotProd() },
		"packing":    func() pack.Policy { return Packing() },
		"clustering": func() pack.Policy { return Clustering() },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				index, naive := pack.NewIndex(policy()), policy()
				var shapes []pack.Shape
				for i := range 12 {
					s := pack.Shape{CPU: 64_000, Memory: 256 * 1024, GPUs: uint8([]int{0, 2, 4, 8}[i%4]), Model: pack.ModelID(i % 3)}
					for slot := range s.GPUs {
						s.Free[slot] = pack.Whole
					}
					shapes = append(shapes, s)
					index.Set(i, uint32(i), s, s)
				}
				index.Refresh()
				type guest struct {
					class  pack.Class
					choice pack.Choice
				}
				var guests []guest
				for range rapid.IntRange(1, 100).Draw(t, "steps") {
					if len(guests) > 0 && rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
						at := rapid.IntRange(0, len(guests)-1).Draw(t, "guest")
						g := guests[at]
						guests = append(guests[:at], guests[at+1:]...)
						s := &shapes[g.choice.Ordinal]
						s.CPU, s.Memory = s.CPU+g.class.CPU, s.Memory+g.class.Memory
						for slot := range g.choice.Devices.Slots() {
							s.Free[slot] += g.class.Milli
						}
						index.Update(g.choice.Ordinal, shapes[g.choice.Ordinal])
						continue
					}
					c := drawClass(t)
					index.Arrive(&c)
					want, rating := scan(naive, &c, shapes)
					got, ok := index.Best(&c)
					if ok != (want >= 0) || ok && (got.Ordinal != want || got.Cost != int(rating.Cost) || c.IsShare() && !got.Devices.Has(int(rating.Slot))) {
						t.Fatalf("%+v: index %+v %v, scan %d %+v", c, got, ok, want, rating)
					}
					if ok {
						shapes[got.Ordinal].Take(&c, got.Devices)
						shapes[got.Ordinal].Guests |= c.GuestBit()
						index.Update(got.Ordinal, shapes[got.Ordinal])
						guests = append(guests, guest{c, got})
					}
				}
			})
		})
	}
}
