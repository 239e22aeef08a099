package record

import (
	"strconv"
)

// Encode returns the record as text. The same record always gives the same
// text: no spaces, fields in one order, containers and devices in the order
// they are in. A record that breaks an invariant or is longer than MaxSize
// gives an *Error.
func Encode(r Record) (string, error) {
	if err := validate(r); err != nil {
		return "", err
	}
	// Names need no escaping (see isName), so they are copied as they are, and
	// the text depends on nothing but this function.
	b := make([]byte, 0, size(r))
	b = append(b, `{"version":`...)
	b = strconv.AppendInt(b, Version, 10)
	b = append(b, `,"node":"`...)
	b = append(b, r.Node...)
	b = append(b, `","containers":[`...)
	for i, c := range r.Containers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":"`...)
		b = append(b, c.Name...)
		b = append(b, `","resource":"`...)
		b = append(b, c.Resource...)
		b = append(b, `","devices":[`...)
		for j, d := range c.Devices {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"index":`...)
			b = strconv.AppendInt(b, int64(d.Index), 10)
			if d.UUID != "" {
				b = append(b, `,"uuid":"`...)
				b = append(b, d.UUID...)
				b = append(b, '"')
			}
			b = appendPart(b, d)
			b = append(b, '}')
		}
		b = append(b, "]}"...)
	}
	b = append(b, "]}"...)
	if len(b) > MaxSize {
		return "", tooLong(len(b))
	}
	return string(b), nil
}

// appendPart writes how much of a device it is; nothing for a whole one.
func appendPart(b []byte, d Device) []byte {
	if d.MemoryMiB > 0 {
		b = strconv.AppendInt(append(b, `,"memoryMiB":`...), d.MemoryMiB, 10)
	}
	if d.ComputeMilli > 0 {
		b = strconv.AppendInt(append(b, `,"computeMilli":`...), int64(d.ComputeMilli), 10)
	}
	if d.Turn {
		b = append(b, `,"turn":1`...)
	}
	if d.MIG != "" {
		b = append(append(append(b, `,"mig":"`...), d.MIG...), '"')
		b = strconv.AppendInt(append(b, `,"start":`...), int64(d.Start), 10)
	}
	return b
}

// size is an upper bound of the encoded length, so that Encode allocates once.
func size(r Record) int {
	n := len(`{"version":1,"node":"","containers":[]}`) + len(r.Node)
	for _, c := range r.Containers {
		n += len(`{"name":"","resource":"","devices":[]},`) + len(c.Name) + len(c.Resource)
		for _, d := range c.Devices {
			n += len(`{"index":1023,"uuid":"","memoryMiB":16777216,"computeMilli":1000,"turn":1,"mig":"","start":7},`) + len(d.UUID) + len(d.MIG)
		}
	}
	return n
}

func tooLong(n int) error {
	return problem(place{-1, -1}, "", "must be at most %d bytes, is %d", MaxSize, n)
}
