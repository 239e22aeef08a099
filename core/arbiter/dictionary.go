package arbiter

// dictionary gives a number to every resource that can matter to a decision: those
// that a queue, a quota or the cluster's total names. A job may ask for others; it is
// charged for them (see Tree.Charged), but nothing limits them, so they have no number
// and no place in vectors. Thus the width of vectors is bounded by configuration and
// fleet, whatever jobs are submitted.
//
// Jobs keep their amounts by name. When a limit on another resource is set,
// Tree.renumber counts all jobs anew, so a new limit counts what already runs, and no
// caller has to submit anything again.
type dictionary struct {
	names  []Resource // sorted
	number map[Resource]int
}

func newDictionary(names []Resource) dictionary {
	d := dictionary{names: names, number: make(map[Resource]int, len(names))}
	for i, r := range names {
		d.number[r] = i
	}
	return d
}

// vector is an amount per resource, by number.
type vector []int64

// vector translates a map; absent is the value of a resource that the map lacks.
func (d *dictionary) vector(m map[Resource]int64, absent int64) vector {
	out := make(vector, len(d.names))
	for i, r := range d.names {
		v, ok := m[r]
		if !ok {
			v = absent
		}
		out[i] = v
	}
	return out
}

// amounts translates back.
func (d *dictionary) amounts(v vector) Amounts {
	var out Amounts
	for i, x := range v {
		if x != 0 {
			out = append(out, Amount{d.names[i], x})
		}
	}
	return out
}

// need is an amount of a resource that has a number; amount > 0.
type need struct {
	resource int
	amount   int64
}

// needs translates amounts; resources without a number are left out.
func (d *dictionary) needs(a Amounts) []need {
	out := make([]need, 0, len(a))
	for _, x := range a {
		if i, ok := d.number[x.Resource]; ok {
			out = append(out, need{i, x.Value})
		}
	}
	return out
}

// at returns 0 for what lies beyond the end.
func (v vector) at(r int) int64 {
	if r < len(v) {
		return v[r]
	}
	return 0
}

// add adds needs, times 1 or -1, to the vector and returns it; a nil vector is made.
func (v vector) add(needs []need, sign int64, width int) vector {
	if v == nil {
		v = make(vector, width)
	}
	for _, d := range needs {
		v[d.resource] += sign * d.amount
	}
	return v
}
