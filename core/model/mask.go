package model

import (
	"iter"
	"math/bits"
)

// MaxDevices is the most devices one node may have: the width of a Mask. Larger
// nodes do not exist; counts beyond it (time-slicing) are cut.
const MaxDevices = 64

// Mask is a set of devices of one node, by slot: bit i is the device at
// position i of Node.Devices.
type Mask uint64

// FullMask is the set of the first n slots.
func FullMask(n int) Mask {
	if n >= MaxDevices {
		return ^Mask(0)
	}
	return Mask(1)<<n - 1
}

// Count is the number of devices in the set.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Has says whether the slot is in the set.
func (m Mask) Has(slot int) bool { return m&(1<<slot) != 0 }

// With returns the set with the slot added.
func (m Mask) With(slot int) Mask { return m | 1<<slot }

// Lowest returns the n lowest slots of the set, or all if it has fewer.
func (m Mask) Lowest(n int) Mask {
	var out Mask
	for ; n > 0 && m != 0; n-- {
		low := m & -m
		out |= low
		m &^= low
	}
	return out
}

// Slots yields the slots of the set in ascending order.
func (m Mask) Slots() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(m); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}
