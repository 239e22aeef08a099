package record

import "fmt"

// Encode returns the record as text. The same record always gives the same text: no spaces,
// fields in one order, containers and devices in the order they are in. A record that breaks
// an invariant or is longer than MaxSize gives an *Error.
func Encode(r Record) (string, error) {
	if err := validate(r); err != nil {
		return "", err
	}
	// Names need no escaping (see isName): they are copied as they are.
	b := fmt.Appendf(make([]byte, 0, 512), `{"version":%d,"node":"%s","containers":[`, Version, r.Node)
	for i, c := range r.Containers {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":"%s","resource":"%s","devices":[`, c.Name, c.Resource)
		for j, d := range c.Devices {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendDevice(b, d)
		}
		b = append(b, "]}"...)
	}
	b = append(b, "]}"...)
	if len(b) > MaxSize {
		return "", tooLong(len(b))
	}
	return string(b), nil
}

// appendDevice writes a device, and how much of it unless it is a whole one.
func appendDevice(b []byte, d Device) []byte {
	b = fmt.Appendf(b, `{"index":%d`, d.Index)
	if d.UUID != "" {
		b = fmt.Appendf(b, `,"uuid":"%s"`, d.UUID)
	}
	if d.MemoryMiB > 0 {
		b = fmt.Appendf(b, `,"memoryMiB":%d`, d.MemoryMiB)
	}
	if d.ComputeMilli > 0 {
		b = fmt.Appendf(b, `,"computeMilli":%d`, d.ComputeMilli)
	}
	if d.Turn {
		b = append(b, `,"turn":1`...)
	}
	if d.MIG != "" {
		b = fmt.Appendf(b, `,"mig":"%s","start":%d`, d.MIG, d.Start)
	}
	return append(b, '}')
}

func tooLong(n int) error {
	return problem(outside, "", "must be at most %d bytes, is %d", MaxSize, n)
}
