package pack

import (
	"cmp"
	"fmt"
)

// Class is what an objective sees of a request. Requests of one class are
// interchangeable, and the value itself is the identity: it may be a map key.
type Class struct {
	CPU    int64 // milli
	Memory int64 // MiB
	Models ModelSet
	Milli  uint16 // of each GPU; Whole for whole GPUs, 0 without GPUs
	GPUs   uint8
}

// Validate says what is wrong with a class, naming the field.
func (c *Class) Validate() error {
	switch {
	case c.CPU < 0:
		return fmt.Errorf("class: CPU %d is negative", c.CPU)
	case c.Memory < 0:
		return fmt.Errorf("class: memory %d is negative", c.Memory)
	case c.GPUs > MaxGPUs:
		return fmt.Errorf("class: %d GPUs, at most %d", c.GPUs, MaxGPUs)
	case c.GPUs == 0 && c.Milli != 0:
		return fmt.Errorf("class: %d milli of no GPU", c.Milli)
	case c.GPUs > 0 && (c.Milli == 0 || c.Milli > Whole):
		return fmt.Errorf("class: %d milli per GPU, want 1..%d", c.Milli, Whole)
	case c.GPUs > 1 && c.Milli != Whole:
		return fmt.Errorf("class: %d milli of each of %d GPUs: only one GPU can be shared", c.Milli, c.GPUs)
	}
	return nil
}

// Demand is the GPU amount asked for, in milli.
func (c *Class) Demand() int64 { return int64(c.GPUs) * int64(c.Milli) }

// IsShare says whether the class asks for a part of one GPU.
func (c *Class) IsShare() bool { return c.GPUs == 1 && c.Milli < Whole }

// Compare is a total order of classes. Float sums over classes are added up in it, so
// that they do not depend on the order of arrivals.
func (c Class) Compare(o Class) int {
	return cmp.Or(cmp.Compare(c.GPUs, o.GPUs), cmp.Compare(c.Milli, o.Milli), cmp.Compare(c.CPU, o.CPU),
		cmp.Compare(c.Memory, o.Memory), cmp.Compare(c.Models, o.Models))
}

// GuestBit is how the class shows in Shape.Guests while it runs; 0 without GPUs.
func (c *Class) GuestBit() uint32 {
	switch {
	case c.GPUs == 0:
		return 0
	case c.IsShare():
		return 1
	default:
		return 1 << c.GPUs
	}
}
