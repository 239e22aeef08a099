package pack

import "github.com/tangram-dev/tangram/core/model"

const (
	// MaxGPUs is the most GPUs a Shape holds. Larger nodes are offered in parts.
	MaxGPUs = 16
	// Whole is one GPU, in milli.
	Whole = 1000
	// MaxModels bounds ModelID, so that a set of models is one word.
	MaxModels = 64
)

// ModelID is a GPU model as a small number. The caller gives out the numbers; two nodes of one ID form one pool. 0 is "no GPU".
type ModelID uint8

// ModelSet is a set of models; the empty set means that any will do.
type ModelSet uint64

// Set is the set of the given models.
func Set(ids ...ModelID) ModelSet {
	var s ModelSet
	for _, id := range ids {
		s |= 1 << id
	}
	return s
}

// Has says whether the model is in the set. The empty set has none; ask Allows
// for the meaning "any".
func (s ModelSet) Has(id ModelID) bool { return s&(1<<id) != 0 }

// Allows says whether a request with this wish may use the model.
func (s ModelSet) Allows(id ModelID) bool { return s == 0 || s.Has(id) }

// Shape is what an objective sees of a node: what is free, in whole units. It is
// a plain value; two nodes of equal shape are worth the same.
//
// Invariant: CPU, Memory >= 0; GPUs <= MaxGPUs; Free[i] <= Whole, and 0 from
// GPUs on; Model < MaxModels, and 0 exactly when GPUs is 0.
type Shape struct {
	CPU    int64 // free, milli
	Memory int64 // free, MiB
	Free   [MaxGPUs]uint16
	GPUs   uint8 // number of devices, used or not
	Model  ModelID
	// Grade orders models: of nodes that rate alike the one with the smaller goes
	// first, so that better GPUs are left for requests that need them.
	Grade uint8
	// Guests says what runs here: bit 0 for shares, bit k for requests of k whole
	// GPUs. Only the clustering policy looks at it.
	Guests uint32
}

// Full is the number of unused GPUs.
func (s *Shape) Full() int {
	n := 0
	for _, free := range s.Free[:s.GPUs] {
		if free == Whole {
			n++
		}
	}
	return n
}

// Idle is the free GPU amount, in milli.
func (s *Shape) Idle() int64 {
	var sum int64
	for _, free := range s.Free[:s.GPUs] {
		sum += int64(free)
	}
	return sum
}

// Fits says whether the request fits, devices included.
func (s *Shape) Fits(c *Class) bool {
	if s.CPU < c.CPU || s.Memory < c.Memory {
		return false
	}
	if c.GPUs == 0 {
		return true
	}
	if !c.Models.Allows(s.Model) {
		return false
	}
	need := int(c.GPUs)
	for _, free := range s.Free[:s.GPUs] {
		if free >= c.Milli {
			if need--; need == 0 {
				return true
			}
		}
	}
	return false
}

// Take removes what the request gets on the devices of the set. The request must
// fit there. Guests are the caller's: only it knows the other holders.
func (s *Shape) Take(c *Class, set model.Mask) {
	s.CPU -= c.CPU
	s.Memory -= c.Memory
	for slot := range set.Slots() {
		s.Free[slot] -= c.Milli
	}
}

// FirstWhole is the set of the first k unused GPUs. Devices of a node are
// alike for every objective here; a caller that knows links chooses among them.
func (s *Shape) FirstWhole(k int) model.Mask {
	var set model.Mask
	for i, free := range s.Free[:s.GPUs] {
		if k > 0 && free == Whole {
			set = set.With(i)
			k--
		}
	}
	return set
}
