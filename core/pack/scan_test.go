package pack

import "github.com/tangram-dev/tangram/core/model"

// Scan is Best without any index: it rates every node anew. It is the meaning of
// the index, which must choose the same.
func (x *Index) Scan(c *Class) (Choice, bool) {
	x.policy.Begin(c)
	var best entry
	var chosen Rating
	found := false
	for ordinal := range x.nodes {
		n := &x.nodes[ordinal]
		if !x.has(ordinal) || !n.Shape.Fits(c) {
			continue
		}
		r := x.policy.Rate(c, n)
		e := entry{newKey(r.Cost, x.gates[ordinal].order, ordinal), x.policy.Shift(c, int(r.Bucket))}
		if !found || e.before(best) {
			best, chosen, found = e, r, true
		}
	}
	if !found {
		return Choice{}, false
	}
	n := &x.nodes[best.key.ordinal()]
	return Choice{best.key.ordinal(), n.devices(c, chosen), best.cost(), best.shift.Tie}, true
}

// Give undoes Take.
func (s *Shape) Give(c *Class, set model.Mask) {
	s.CPU += c.CPU
	s.Memory += c.Memory
	for slot := range set.Slots() {
		s.Free[slot] += c.Milli
	}
}
