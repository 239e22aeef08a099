package record

// Decode reads a record. It accepts any JSON spelling of it (spaces, field order, escapes) and
// nothing else: no unknown or repeated field, no unknown version, no trailing data, no value
// that breaks an invariant. On error the Record is zero and the error an *Error that names the
// field.
//
// The strings of the result are parts of s and keep it alive.
func Decode(s string) (Record, error) {
	if len(s) > MaxSize {
		return Record{}, tooLong(len(s))
	}
	scan := scanner{s: s, at: outside}
	r := scan.record()
	if scan.end(); scan.err != nil {
		return Record{}, scan.err
	}
	if err := validate(r); err != nil {
		return Record{}, err
	}
	return r, nil
}

// The readers below know which fields there are, and leave their values to validate. Their
// nesting is that of the format, so hostile depth cannot reach the stack.

func (s *scanner) record() (r Record) {
	s.object([]string{"version", "node", "containers"}, 3, func(field string) {
		switch field {
		case "version":
			if v := s.integer(); v != Version {
				s.wrong("must be %d, is %d: written by another Tangram", Version, v)
			}
		case "node":
			r.Node = s.string()
		case "containers":
			s.array(&s.at.container, func() { r.Containers = append(r.Containers, s.container()) })
		}
	})
	return r
}

func (s *scanner) container() (c Container) {
	s.object([]string{"name", "resource", "devices"}, 3, func(field string) {
		switch field {
		case "name":
			c.Name = s.string()
		case "resource":
			c.Resource = s.string()
		case "devices":
			c.Devices = make([]Device, 0, 8)
			s.array(&s.at.device, func() { c.Devices = append(c.Devices, s.device()) })
		}
	})
	return c
}

func (s *scanner) device() (d Device) {
	s.object([]string{"index", "uuid", "memoryMiB", "computeMilli", "turn", "mig", "start"}, 1, func(field string) {
		switch field {
		case "index":
			d.Index = s.integer()
		case "uuid":
			if d.UUID = s.string(); d.UUID == "" {
				s.wrong("must not be empty: leave it out when it is unknown")
			}
		case "memoryMiB":
			if d.MemoryMiB = int64(s.integer()); d.MemoryMiB == 0 {
				s.wrong("must not be 0: leave it out")
			}
		case "computeMilli":
			if d.ComputeMilli = s.integer(); d.ComputeMilli == 0 {
				s.wrong("must not be 0: leave it out")
			}
		case "turn":
			if d.Turn = s.integer() == 1; !d.Turn {
				s.wrong("must be 1: leave it out otherwise")
			}
		case "mig":
			if d.MIG = s.string(); d.MIG == "" {
				s.wrong("must not be empty: leave it out for a whole device")
			}
		case "start":
			d.Start = s.integer()
		}
	})
	return d
}
