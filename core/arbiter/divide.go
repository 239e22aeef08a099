package arbiter

import (
	"cmp"
	"slices"
)

// portion is what one queue gets of a division. Between low and high it gets the same
// per weight as all others that are between theirs.
//
// Invariant: weight > 0, 0 <= low <= high.
type portion struct {
	weight    int64
	low, high int64
	got       int64
}

// divide shares an amount by weight: got = clamp(weight * level, low, high) for
// the one level at which all is given out, or high for all where there is enough.
// That is max-min fairness: no portion can grow without taking from one that has less
// per weight. When not even the lows can be paid, the lows
// themselves are divided so.
//
// Shares are whole numbers; what rounding leaves goes out one by one, the largest
// fraction first, then in the order given. The sum is never above the amount, and
// is the amount when the highs allow it. Cost: n log n.
func divide(amount int64, parts []portion) {
	var lows, highs int64
	for i := range parts {
		p := &parts[i]
		lows, highs = add(lows, p.low), add(highs, p.high)
		p.got = p.high
	}
	switch {
	case highs <= amount:
		return
	case lows > amount:
		for i := range parts {
			parts[i].low, parts[i].high = 0, parts[i].low
		}
	}
	for i := range parts {
		parts[i].high = min(parts[i].high, amount)
	}
	settle(amount, parts, level(amount, parts))
}

// level is the highest level, among those where a part leaves its low or reaches
// its high, that the amount can pay.
func level(amount int64, parts []portion) fraction {
	points := make([]fraction, 0, 2*len(parts))
	for _, p := range parts {
		if p.low > 0 { // level 0 is where all begins
			points = append(points, fraction{p.low, p.weight})
		}
		points = append(points, fraction{p.high, p.weight})
	}
	slices.SortFunc(points, fraction.compare)
	// The first point that is too expensive; all after it are, too.
	i, _ := slices.BinarySearchFunc(points, amount, func(l fraction, amount int64) int {
		if cost(l, parts).compare(times(amount, l.q)) > 0 {
			return 1
		}
		return -1
	})
	if i == 0 {
		return fraction{0, 1}
	}
	return points[i-1]
}

// cost is what all parts get at a level, times the level's denominator.
func cost(l fraction, parts []portion) double {
	var sum double
	for _, p := range parts {
		c, low, high := times(p.weight, l.p), times(p.low, l.q), times(p.high, l.q)
		switch {
		case c.compare(low) < 0:
			c = low
		case c.compare(high) > 0:
			c = high
		}
		sum = sum.plus(c)
	}
	return sum
}

// settle pays out between a level and the next point. The parts in between get
// what the others leave, by weight.
func settle(amount int64, parts []portion, l fraction) {
	type rounded struct {
		part int
		left int64
	}
	var between []rounded
	var weights int64
	for i := range parts {
		p := &parts[i]
		switch {
		case l.compare(fraction{p.high, p.weight}) >= 0:
			p.got = p.high
			amount -= p.got
		case l.compare(fraction{p.low, p.weight}) < 0:
			p.got = p.low
			amount -= p.got
		default:
			between = append(between, rounded{part: i})
			weights += p.weight
		}
	}
	rest := amount
	for i := range between {
		b := &between[i]
		p := &parts[b.part]
		p.got, b.left = scale(amount, p.weight, weights)
		rest -= p.got
	}
	slices.SortStableFunc(between, func(a, b rounded) int { return cmp.Compare(b.left, a.left) })
	for _, b := range between[:min(int64(len(between)), max(rest, 0))] {
		parts[b.part].got++
	}
}
