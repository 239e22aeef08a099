package model

import "fmt"

// PartKind says how much of a device a container takes.
type PartKind uint8

// A Whole device has one holder. A Share is an amount of memory and compute of a device
// that others may use too. A Slice is a MIG instance.
const (
	Whole PartKind = iota
	Share
	Slice
)

// Part is how much of each of its devices a container wants. The zero Part is a
// whole device.
type Part struct {
	Kind PartKind
	// Memory of a Share, unless it is given in thousandths of the device's.
	Memory      MiB
	MemoryMilli int
	// Milli is the compute of a Share, in thousandths of the device's. 0 takes what
	// the others leave; 1000 is the device alone.
	Milli int
	// Turn is a share without amounts: a turn on a time-sliced device, which has
	// room for a number of tenants.
	Turn bool
	// Profile is the name of a Slice's MIG profile.
	Profile string
}

// FullMilli is the compute of a whole device.
const FullMilli = 1000

// MemoryOn is the memory the part takes of a device. Thousandths are rounded down, as
// HAMi does with percents, so that parts of 1000 together always fit. What a holder keeps may
// have both amounts, which add up.
func (p Part) MemoryOn(d *Device) MiB {
	return p.Memory + d.Memory*MiB(p.MemoryMilli)/FullMilli
}

// Validate names the field that is wrong.
func (p Part) Validate() error {
	switch p.Kind {
	case Whole:
		if p != (Part{}) {
			return fmt.Errorf("a whole device has no amounts")
		}
	case Share:
		switch {
		case p.Profile != "":
			return fmt.Errorf("profile: %q on a share", p.Profile)
		case p.Memory < 0:
			return fmt.Errorf("memory: %d is negative", p.Memory)
		case p.MemoryMilli < 0 || p.MemoryMilli > FullMilli:
			return fmt.Errorf("memoryMilli: %d is not between 0 and %d", p.MemoryMilli, FullMilli)
		case p.Memory > 0 && p.MemoryMilli > 0:
			return fmt.Errorf("memoryMilli: given beside memory")
		case p.Milli < 0 || p.Milli > FullMilli:
			return fmt.Errorf("milli: %d is not between 0 and %d", p.Milli, FullMilli)
		case p.Turn && (p.Memory > 0 || p.MemoryMilli > 0 || p.Milli > 0):
			return fmt.Errorf("turn: a turn has no amounts")
		case !p.Turn && p.Memory == 0 && p.MemoryMilli == 0 && p.Milli == 0:
			return fmt.Errorf("memory: a share of nothing")
		}
	case Slice:
		if p.Profile == "" {
			return fmt.Errorf("profile: empty")
		}
		if p.Memory != 0 || p.MemoryMilli != 0 || p.Milli != 0 || p.Turn {
			return fmt.Errorf("profile: a slice has no other amounts")
		}
	default:
		return fmt.Errorf("kind: %d is not a kind", p.Kind)
	}
	return nil
}

// MIGProfile is one kind of MIG instance a device offers.
type MIGProfile struct {
	// ID is NVML's GPU instance profile id. It identifies the profile on its
	// model; names do not (1g.10gb differs between A100-40GB and A100-80GB).
	ID   int
	Name string
	// Memory is what an instance can use, a little less than the name says.
	Memory MiB
	// Compute is the number of compute slices.
	Compute int
	// Size is the number of memory slices, Starts where an instance may begin.
	Size   int
	Starts []int
	// Media: the instance has the media engines; a GPU has one such instance at
	// most.
	Media bool
}
