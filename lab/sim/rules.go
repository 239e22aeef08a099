package sim

import (
	"math"

	"github.com/tangram-dev/tangram/core/pack"
)

// The published baselines (USENIX ATC'23, section 6). Each scores a placement 0..100,
// larger is better, by a function of class and node alone; none learns.
//
// All but clustering see the sizes below as the largest node there is.
const (
	largestCPU = 128_000
	largestGPU = 8 * pack.Whole
)

// Rule is a policy made of a scoring function. Shares go to the tightest device.
type Rule struct {
	fixed
	score func(c *pack.Class, n *pack.Node) int
}

// Rate implements Policy.
func (r Rule) Rate(c *pack.Class, n *pack.Node) pack.Rating {
	slot := uint8(0)
	if c.IsShare() {
		slot = tightest(n, c)
	}
	return scored(min(max(r.score(c, n), 0), 100), slot)
}

// BestFit prefers the node with the least CPU and GPU left over.
func BestFit() Rule {
	return Rule{score: func(c *pack.Class, n *pack.Node) int {
		cpu := float64(n.Shape.CPU-c.CPU) / largestCPU
		gpu := float64(n.Shape.Idle()-c.Demand()) / largestGPU
		return int(100 * (1 - 0.5*cpu - 0.5*gpu))
	}}
}

// DotProd prefers the node whose free amounts align least with the request: the
// published sign, which consolidates.
func DotProd() Rule {
	return Rule{score: func(c *pack.Class, n *pack.Node) int {
		cpu := float64(n.Shape.CPU) / largestCPU * float64(c.CPU) / largestCPU
		gpu := float64(n.Shape.Idle()) / largestGPU * float64(c.Demand()) / largestGPU
		return int(100 * (1 - (cpu+gpu)/2))
	}}
}

// Packing prefers GPUs in use to unused ones, and those to unused nodes.
func Packing() Rule {
	return Rule{score: func(c *pack.Class, n *pack.Node) int {
		if c.GPUs == 0 {
			return 0
		}
		if c.IsShare() {
			used := 0 // free part of GPUs in use, in percent
			fits := false
			for _, free := range n.Shape.Free[:n.Shape.GPUs] {
				if free < pack.Whole {
					used += int(free) / 10
					fits = fits || free >= c.Milli
				}
			}
			if fits {
				return max(50, 100-used/10)
			}
		}
		full := n.Shape.Full()
		if full < int(n.Shape.GPUs) {
			return max(33, 50-int(c.GPUs))
		}
		return max(33-full, full)
	}}
}

// Clustering puts requests of one size together: on nodes with only that size,
// then with that size among others, then on unused nodes, then on the rest.
// Within each tier the fullest node wins.
func Clustering() Rule {
	return Rule{score: func(c *pack.Class, n *pack.Node) int {
		if c.GPUs == 0 {
			return 0
		}
		tier := 0
		switch mine := c.GuestBit(); {
		case n.Shape.Guests == mine:
			tier = 75
		case n.Shape.Guests&mine != 0:
			tier = 50
		case n.Shape.Guests == 0:
			tier = 25
		}
		return tier + int(math.Floor(25*(largestGPU-float64(n.Shape.Idle()))/largestGPU))
	}}
}

// scored turns a score of 0..100 into a rating.
func scored(score int, slot uint8) pack.Rating {
	return pack.Rating{Cost: uint16(100 - score), Slot: slot}
}

// fixed is the rest of a policy that rates by node and class alone.
type fixed struct{}

// Arrive implements Policy.
func (fixed) Arrive(*pack.Class, int) bool { return false }

// Reset implements Policy.
func (fixed) Reset([]pack.Kind) {}

// Enter implements Policy.
func (fixed) Enter(*pack.Node) {}

// Leave implements Policy.
func (fixed) Leave(*pack.Node) {}

// Begin implements Policy.
func (fixed) Begin(*pack.Class) {}

// Shift implements Policy.
func (fixed) Shift(*pack.Class, int) pack.Shift { return pack.Shift{} }

// tightest is the device with the least free part that holds the share; the
// lowest of several.
func tightest(n *pack.Node, c *pack.Class) uint8 {
	best := -1
	for i, free := range n.Shape.Free[:n.Shape.GPUs] {
		if free >= c.Milli && (best < 0 || free < n.Shape.Free[best]) {
			best = i
		}
	}
	return uint8(max(best, 0))
}
