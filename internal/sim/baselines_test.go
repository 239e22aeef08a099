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
				index := pack.NewIndex(policy())
				var shapes []pack.Shape
				for i := range 12 {
					s := pack.Shape{CPU: 64_000, Memory: 256 * 1024, GPUs: uint8([]int{0, 2, 4, 8}[i%4]), Model: pack.ModelID(i % 3)}
					for slot := range s.GPUs {
						s.Free[slot] = pack.Whole
					}
					shapes = append(shapes, s)
					index.Set(i, pack.Order(string(rune('a'+i))), s, s)
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
						shapes[g.choice.Ordinal].Give(&g.class, g.choice.Devices)
						index.Update(g.choice.Ordinal, shapes[g.choice.Ordinal])
						continue
					}
					c := drawClass(t)
					index.Arrive(&c)
					want, fits := index.Scan(&c)
					got, ok := index.Best(&c)
					if ok != fits || got != want {
						t.Fatalf("%+v: index %+v %v, scan %+v %v", c, got, ok, want, fits)
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
