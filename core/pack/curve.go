package pack

import (
	"cmp"
	"slices"
)

// curve is a concave, non-decreasing, piecewise-linear function h from (0, 0) or
// above to 1, flat after its last point. h(x) answers: if a node has x CPU (or
// memory) per GPU, what part of its GPUs can be sold, given that the cluster
// sends it the requests that need least of it?
type curve struct{ points []point }

type point struct{ x, y float64 }

// need is one class on its way into a curve: amount of CPU or memory, and GPU,
// of all its arrivals together.
type need struct{ amount, gpu float64 }

// newCurve stacks the needs, lightest per GPU first. Without needs h is 1. The
// order of needs with equal ratio does not matter to the function, and the sort
// is stable, so sums are made in the order given.
func newCurve(needs []need) curve {
	total := 0.0
	for _, n := range needs {
		total += n.gpu
	}
	if total == 0 {
		return curve{points: []point{{0, 1}}}
	}
	sorted := slices.Clone(needs)
	slices.SortStableFunc(sorted, func(a, b need) int { return cmp.Compare(a.amount*b.gpu, b.amount*a.gpu) })
	c := curve{points: []point{{0, 0}}}
	var at point
	for i, n := range sorted {
		at.x += n.amount / total
		at.y += n.gpu / total
		if i == len(sorted)-1 {
			at.y = 1 // the sum of the parts, less rounding
		}
		if last := &c.points[len(c.points)-1]; at.x == last.x {
			last.y = at.y // needs nothing: a step at 0
			continue
		}
		c.points = append(c.points, at)
	}
	return c
}

// scaled is r*h(amount/r), in units of r, without the division: h is piecewise
// linear, so r*h(amount/r) is linear in both on each piece.
func (c *curve) scaled(r, amount float64) float64 {
	points := c.points
	last := points[len(points)-1]
	if amount >= last.x*r {
		return r * last.y
	}
	low, high := 0, len(points)-1 // amount is in [points[low].x, points[high].x) * r
	for high-low > 1 {
		middle := int(uint(low+high) >> 1)
		if amount >= points[middle].x*r {
			low = middle
		} else {
			high = middle
		}
	}
	a, b := points[low], points[high]
	return a.y*r + (b.y-a.y)*(amount-a.x*r)/(b.x-a.x)
}
