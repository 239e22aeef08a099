package record

// Decode reads a record. It accepts any JSON spelling of it (spaces, field
// order, escapes) and nothing else: no unknown or repeated field, no unknown
// version, no trailing data, no value that breaks an invariant. On error the
// Record is zero and the error an *Error that names the field.
//
// The strings of the result are parts of s and keep it alive.
func Decode(s string) (Record, error) {
	if len(s) > MaxSize {
		return Record{}, tooLong(len(s))
	}
	d := decoder{scanner{s: s, at: place{-1, -1}}}
	r, err := d.record()
	if err == nil {
		err = validate(r)
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// decoder reads the fields of a record; it knows which there are, and leaves
// their values to validate. Its nesting is that of the format, so hostile depth
// cannot reach the stack.
type decoder struct{ scanner }

// fields are the members of one kind of object; the first required ones must
// be there.
type fields struct {
	names    []string
	required int
}

func (d *decoder) record() (r Record, err error) {
	err = d.object(fields{[]string{"version", "node", "containers"}, 3}, func(field int) (err error) {
		switch field {
		case 0:
			var v int
			if v, err = d.integer(); err == nil && v != Version {
				err = d.wrong("must be %d, is %d: written by another Tangram", Version, v)
			}
		case 1:
			r.Node, err = d.string()
		case 2:
			err = d.array(&d.at.container, func() error {
				c, err := d.container()
				r.Containers = append(r.Containers, c)
				return err
			})
		}
		return err
	})
	if err == nil {
		err = d.end()
	}
	return r, err
}

func (d *decoder) container() (c Container, err error) {
	err = d.object(fields{[]string{"name", "resource", "devices"}, 3}, func(field int) (err error) {
		switch field {
		case 0:
			c.Name, err = d.string()
		case 1:
			c.Resource, err = d.string()
		case 2:
			err = d.array(&d.at.device, func() error {
				v, err := d.device()
				if c.Devices == nil {
					c.Devices = make([]Device, 0, 8)
				}
				c.Devices = append(c.Devices, v)
				return err
			})
		}
		return err
	})
	return c, err
}

func (d *decoder) device() (v Device, err error) {
	names := []string{"index", "uuid", "memoryMiB", "computeMilli", "turn", "mig", "start"}
	err = d.object(fields{names, 1}, func(field int) (err error) {
		switch field {
		case 0:
			v.Index, err = d.integer()
		case 1:
			v.UUID, err = d.string()
			if err == nil && v.UUID == "" {
				err = d.wrong("must not be empty: leave it out when it is unknown")
			}
		case 2:
			var n int
			if n, err = d.integer(); err == nil && n == 0 {
				err = d.wrong("must not be 0: leave it out")
			}
			v.MemoryMiB = int64(n)
		case 3:
			if v.ComputeMilli, err = d.integer(); err == nil && v.ComputeMilli == 0 {
				err = d.wrong("must not be 0: leave it out")
			}
		case 4:
			var n int
			if n, err = d.integer(); err == nil && n != 1 {
				err = d.wrong("must be 1: leave it out otherwise")
			}
			v.Turn = n == 1
		case 5:
			v.MIG, err = d.string()
			if err == nil && v.MIG == "" {
				err = d.wrong("must not be empty: leave it out for a whole device")
			}
		case 6:
			v.Start, err = d.integer()
		}
		return err
	})
	return v, err
}
