package sim

import (
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// Random picks any node and any device, uniformly: the floor of comparisons. It
// has no order to keep, so it looks at all nodes.
type Random struct {
	shapes []pack.Shape
	state  uint64
}

// NewRandom returns a picker whose picks depend on the seed alone.
func NewRandom(seed uint64) *Random { return &Random{state: seed} }

// Set adds a node or replaces it.
func (r *Random) Set(ordinal int, _ uint32, _, now pack.Shape) {
	for len(r.shapes) <= ordinal {
		r.shapes = append(r.shapes, pack.Shape{CPU: -1})
	}
	r.shapes[ordinal] = now
}

// Update replaces the shape of a node.
func (r *Random) Update(ordinal int, now pack.Shape) { r.shapes[ordinal] = now }

// Arrive learns nothing.
func (r *Random) Arrive(*pack.Class) {}

// Best is any node on which the class fits, false if there is none.
func (r *Random) Best(c *pack.Class) (pack.Choice, bool) {
	picked, seen := -1, uint64(0)
	for i := range r.shapes {
		if r.shapes[i].Fits(c) {
			// Reservoir of one: every node that fits is as likely.
			if seen++; r.below(seen) == 0 {
				picked = i
			}
		}
	}
	if picked < 0 {
		return pack.Choice{}, false
	}
	s := &r.shapes[picked]
	set := model.Mask(0)
	for range int(c.GPUs) {
		slot, seen := 0, uint64(0)
		for i, free := range s.Free[:s.GPUs] {
			if free >= c.Milli && !set.Has(i) {
				if seen++; r.below(seen) == 0 {
					slot = i
				}
			}
		}
		set = set.With(slot)
	}
	return pack.Choice{Ordinal: picked, Devices: set}, true
}

// below is a random number in [0, n), by splitmix64. The bias of the remainder
// is below 2^-40 here.
func (r *Random) below(n uint64) uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) % n
}

// Remove removes a node.
func (r *Random) Remove(ordinal int) { r.shapes[ordinal] = pack.Shape{CPU: -1} }
