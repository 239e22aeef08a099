package sim

import (
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/pack"
)

// FGD is the best published policy, fragmentation gradient descent (USENIX
// ATC'23): place where F falls most. It is told the workload. The score is
// quantised to 0..100 and ties go to the first node of a fixed order, as
// published: both matter, for random ties cost it 5 points and the exact
// gradient 3.
type FGD struct {
	fixed
	f *Fragmentation
}

// NewFGD returns the policy for a typical workload.
func NewFGD(f *Fragmentation) *FGD { return &FGD{f: f} }

// Rate implements Policy.
func (p *FGD) Rate(c *pack.Class, n *pack.Node) pack.Rating {
	s, f := &n.Shape, p.f
	f.look(s)
	before := f.of(s.Model, s.CPU)
	if !c.IsShare() {
		for slot := range s.FirstWhole(int(c.GPUs)).Slots() {
			f.count(s.Free[slot], -1)
		}
		return scored(gradient(before-f.of(s.Model, s.CPU-c.CPU)), 0)
	}
	best, slot := -1, 0
	for i, free := range s.Free[:s.GPUs] {
		if free < c.Milli || slices.Contains(s.Free[:i], free) {
			continue // an equal device was tried
		}
		f.count(free, -1)
		f.count(free-c.Milli, 1)
		if score := gradient(before - f.of(s.Model, s.CPU-c.CPU)); score > best {
			best, slot = score, i
		}
		f.count(free-c.Milli, -1)
		f.count(free, 1)
	}
	return scored(best, uint8(slot))
}

// gradient is the published score of a fall of F by delta milli-GPU, 0..100.
func gradient(delta float64) int { return int(100 / (1 + math.Exp(-delta/pack.Whole))) }
