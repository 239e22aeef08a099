package pack

import (
	"math"
	"math/bits"
)

// supply is what each model still has to offer, kept as nodes change: potential,
// and whole GPUs in groups of each slot size. In micro-GPU, so exact.
type supply struct {
	potential [MaxModels]int64
	slots     [len(slotSizes)][MaxModels]int64
	total     int64 // sum of potential
}

// add counts a node in (sign 1) or out (-1).
func (s *supply) add(n *Node, sign int64) {
	m := n.Shape.Model
	s.potential[m] += sign * n.potential
	s.total += sign * n.potential
	for i, size := range slotSizes {
		s.slots[i][m] += sign * int64(n.full/size*size) * micro
	}
}

// pressure is how scarce things are, 0 (plenty) to 1 (all of it will be needed
// by requests that can use nothing else).
type pressure struct {
	model [MaxModels]float64
	slots [len(slotSizes)][MaxModels]float64
}

const (
	// Up to easeUntil, demand as a part of what is left, nothing is scarce; from
	// there on pressure grows over easeWidth to 1, a little before the two meet.
	easeUntil = 0.5
	easeWidth = 0.4
	// safety is the stock of slots kept, beyond what is expected, for demand that can go
	// nowhere else, in deviations of what will come (a Poisson number of requests of the
	// slot's size). Without it a nearly full fleet, which expects little more, would sell
	// the last slot of the only model that an eight-GPU request fits on.
	safety = 4
	// fine is 1 in the unit in which parts of demand are added up: integers, so that the
	// sum does not depend on the order of pools, which is that of the numbers of models.
	// One pool that reaches 1 is full pressure by itself, so no part need be larger.
	fine = 1 << 44
)

// pressureOf compares picky demand, expected until the fleet is full, with what its
// models have left, and demand for slots with the slots left. Demand goes to the models
// of its set in proportion to what they have, so that all models of a set feel the same
// part of it: model t feels the sum, over the sets with t, of
//
//	share of the set in all demand * all that is left / what the set has left
func (s *supply) pressureOf(t *Tables) pressure {
	var p pressure
	s.spread(t.picky, 0, &s.potential, &p.model)
	for i, size := range slotSizes {
		s.spread(t.slots[i], size, &s.slots[i], &p.slots[i])
	}
	return p
}

// spread does so for one kind of supply; size is that of a slot, or 0.
func (s *supply) spread(pools []pool, size int, left *[MaxModels]int64, out *[MaxModels]float64) {
	var felt [MaxModels]int64
	for _, pool := range pools {
		sum := int64(0)
		for set := pool.models; set != 0; set &= set - 1 {
			sum += left[lowest(set)]
		}
		if sum == 0 {
			continue // nothing left to protect
		}
		expected := pool.share * float64(s.total)
		if pool.picky {
			expected += safety * math.Sqrt(expected*float64(size*micro))
		}
		part := int64(min(expected/float64(sum), 1) * fine)
		for set := pool.models; set != 0; set &= set - 1 {
			felt[lowest(set)] += part
		}
	}
	for i, rho := range felt {
		if rho != 0 {
			out[i] = min(max((float64(rho)/fine-easeUntil)/easeWidth, 0), 1)
		}
	}
}

func lowest(s ModelSet) ModelID { return ModelID(bits.TrailingZeros64(uint64(s))) }
