package pack

// Typical returns the classes that make up at least one in so many of the arrivals that
// were learned, in their order; none for a policy that does not learn.
func (x *Index) Typical(oneIn int64) []Class {
	p, ok := x.policy.(*Potential)
	if !ok {
		return nil
	}
	var all int64
	for _, n := range p.learner.counts {
		all += n
	}
	var out []Class
	for _, d := range p.learner.Demands() {
		if p.learner.counts[d.Class]*oneIn >= all {
			out = append(out, d.Class)
		}
	}
	return out
}
