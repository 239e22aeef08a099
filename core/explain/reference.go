package explain

// Entry is a code as the reference page shows it.
type Entry struct {
	Code    Code
	Meaning string
	Helps   []Remedy
}

// Remedy is something that helps against a cause, in general.
type Remedy struct {
	Who  Actor
	What string
}

// Reference describes all codes, in their order.
func Reference() []Entry {
	var out []Entry
	for c := Code(1); c < codes; c++ {
		e := Entry{Code: c, Meaning: rows[c].meaning}
		for _, r := range remediesFor(c) {
			e.Helps = append(e.Helps, Remedy{r.who, r.what})
		}
		out = append(out, e)
	}
	return out
}
