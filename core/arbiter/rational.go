package arbiter

import (
	"cmp"
	"math/bits"
)

// wide is an unsigned integer of 192 bits, lowest word first: enough for the
// product of three amounts, so that shares compare without rounding.
type wide [3]uint64

// product multiplies; no factor may be negative.
func product(a, b, c int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	h0, l0 := bits.Mul64(lo, uint64(c))
	h1, l1 := bits.Mul64(hi, uint64(c))
	mid, carry := bits.Add64(h0, l1, 0)
	return wide{l0, mid, h1 + carry}
}

func (a wide) compare(b wide) int {
	for i := 2; i >= 0; i-- {
		if a[i] != b[i] {
			if a[i] < b[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// fraction is p/q of amounts, q > 0.
type fraction struct{ p, q int64 }

func (a fraction) compare(b fraction) int { return times(a.p, b.q).compare(times(b.p, a.q)) }

// double is an unsigned integer of 128 bits: the product of two amounts, and sums
// of thousands of products of an amount and a weight.
type double struct{ high, low uint64 }

// times multiplies; no factor may be negative.
func times(a, b int64) double {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return double{high, low}
}

func (a double) compare(b double) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

func (a double) plus(b double) double {
	low, carry := bits.Add64(a.low, b.low, 0)
	return double{a.high + b.high + carry, low}
}

// scale returns the quotient and remainder of a*b/c, for b <= c.
func scale(a, b, c int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	return int64(q), int64(r)
}
