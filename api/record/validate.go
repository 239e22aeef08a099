package record

import (
	"fmt"
	"strconv"
)

// validate checks every invariant of a record. Cost: devices listed times MaxDevices.
func validate(r Record) error {
	if err := text(outside, "node", r.Node, maxNode); err != nil {
		return err
	}
	switch n := len(r.Containers); {
	case n == 0:
		return problem(outside, "containers", "must list at least one container")
	case n > MaxContainers:
		return problem(outside, "containers", "must list at most %d containers, lists %d", MaxContainers, n)
	}
	var known [16]Device // spares the usual node an allocation
	seen := devices{list: known[:0]}
	byName := make(map[string]int, len(r.Containers))
	for i, c := range r.Containers {
		at := place{i, -1}
		if err := text(at, "name", c.Name, maxContainer); err != nil {
			return err
		}
		if first, dup := byName[c.Name]; dup {
			return problem(at, "name", "%q is containers[%d] already", c.Name, first)
		}
		byName[c.Name] = i
		if err := text(at, "resource", c.Resource, maxResource); err != nil {
			return err
		}
		if len(c.Devices) == 0 {
			return problem(at, "devices", "must list at least one device")
		}
		if err := seen.addAll(i, c.Devices); err != nil {
			return err
		}
	}
	return nil
}

// devices are the different devices a record has named so far.
type devices struct{ list []Device }

// addAll checks the devices of one container against each other and those of containers before it.
func (s *devices) addAll(container int, ds []Device) error {
	var held uint64 // positions in s.list; MaxDevices fit
	for j, d := range ds {
		at := place{container, j}
		if d.Index < 0 || d.Index > MaxIndex {
			return problem(at, "index", "must be from 0 to %d, is %d", MaxIndex, d.Index)
		}
		if d.UUID != "" {
			if err := text(at, "uuid", d.UUID, maxUUID); err != nil {
				return err
			}
		}
		if err := part(at, d); err != nil {
			return err
		}
		p, err := s.add(at, d)
		if err != nil {
			return err
		}
		if held&(1<<p) != 0 && !otherSlice(ds[:j], d) {
			return problem(at, "index", "device %d is listed twice", d.Index)
		}
		held |= 1 << p
	}
	return nil
}

// otherSlice says whether a slice begins where no slice of the same device before it in its container does.
func otherSlice(before []Device, d Device) bool {
	for _, b := range before {
		if b.Index == d.Index && (b.MIG == "" || b.Start == d.Start) {
			return false
		}
	}
	return d.MIG != ""
}

// part checks how much of a device an entry says: a share, a slice or all of it.
func part(at place, d Device) error {
	switch {
	case d.MemoryMiB < 0 || d.MemoryMiB > maxMemory:
		return problem(at, "memoryMiB", "must be from 1 to %d, is %d", maxMemory, d.MemoryMiB)
	case d.ComputeMilli < 0 || d.ComputeMilli > 1000:
		return problem(at, "computeMilli", "must be from 1 to 1000, is %d", d.ComputeMilli)
	case d.Turn && (d.MemoryMiB > 0 || d.ComputeMilli > 0):
		return problem(at, "turn", "a turn has no amounts")
	case d.MIG != "" && (d.MemoryMiB > 0 || d.ComputeMilli > 0 || d.Turn):
		return problem(at, "mig", "a slice has no other amounts")
	case d.MIG == "" && d.Start != 0:
		return problem(at, "start", "is of a slice, and mig is missing")
	case d.Start < 0 || d.Start > maxStart:
		return problem(at, "start", "must be from 0 to %d, is %d", maxStart, d.Start)
	case d.MIG != "":
		return text(at, "mig", d.MIG, maxProfile)
	}
	return nil
}

// add returns the position of d in the list, appending it when it is new, and
// refuses a device that contradicts one before it.
func (s *devices) add(at place, d Device) (int, error) {
	d = Device{Index: d.Index, UUID: d.UUID} // how much of it is part's business
	for p, k := range s.list {
		if k.Index == d.Index {
			if k.UUID != d.UUID {
				return 0, problem(at, "uuid", "is %q, but device %d was %q before", d.UUID, d.Index, k.UUID)
			}
			return p, nil
		}
		if d.UUID != "" && k.UUID == d.UUID {
			return 0, problem(at, "uuid", "%q is device %d and device %d", d.UUID, k.Index, d.Index)
		}
	}
	if len(s.list) == MaxDevices {
		return 0, problem(outside, "containers", "must name at most %d different devices", MaxDevices)
	}
	s.list = append(s.list, d)
	return len(s.list) - 1, nil
}

// text checks a name: 1 to limit characters of the alphabet below.
func text(at place, field, s string, limit int) error {
	if s == "" {
		return problem(at, field, "must not be empty")
	}
	if len(s) > limit {
		return problem(at, field, "must be at most %d characters, is %d", limit, len(s))
	}
	for i := range len(s) {
		if !isName(s[i]) {
			return problem(at, field, "may hold letters, digits and -_.:/+ only, holds %q", s[i:i+1])
		}
	}
	return nil
}

// isName is the alphabet of all names in a record: it covers Kubernetes' names and vendors' UUIDs, and
// needs no escaping in JSON, in a shell or on a terminal.
func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '_' || c == '.' || c == ':' || c == '/' || c == '+'
}

// place is where in a record we are: container and device number, -1 outside.
type place struct{ container, device int }

var outside = place{-1, -1}

// path is the full name of a field at this place.
func (p place) path(field string) string {
	if p.container < 0 {
		return field
	}
	s := "containers[" + strconv.Itoa(p.container) + "]"
	if p.device >= 0 {
		s += ".devices[" + strconv.Itoa(p.device) + "]"
	}
	if field == "" {
		return s
	}
	return s + "." + field
}

func problem(at place, field, format string, args ...any) error {
	return &Error{Field: at.path(field), Problem: fmt.Sprintf(format, args...)}
}
