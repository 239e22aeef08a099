package pack

import (
	"cmp"
	"slices"
)

// journal is the list of nodes that changed, oldest first. Only the recent part
// is kept: who is further behind than there are nodes looks at all of them.
type journal struct {
	entries []int32
	dropped int
}

func (j *journal) add(ordinal, nodes int) {
	if len(j.entries) > 1024+4*nodes {
		half := len(j.entries) / 2
		j.entries = slices.Delete(j.entries, 0, half)
		j.dropped += half
	}
	j.entries = append(j.entries, int32(ordinal))
}

func (j *journal) end() int { return j.dropped + len(j.entries) }

// standing is the order for a class, brought up to date.
func (x *Index) standing(c *Class) *standing {
	s := x.classes[*c]
	if s == nil {
		x.makeRoom()
		s = &standing{class: *c, read: -1}
		x.classes[*c] = s
	}
	x.uses++
	s.used = x.uses
	behind := x.journal.end() - s.read
	if s.read < x.journal.dropped || s.epoch != x.epoch || behind > len(x.nodes) {
		x.rank(s)
	} else {
		for _, ordinal := range x.journal.entries[s.read-x.journal.dropped:] {
			x.rerank(s, int(ordinal))
		}
	}
	s.read, s.epoch = x.journal.end(), x.epoch
	return s
}

// makeRoom forgets the class that was not asked for longest, when there are too
// many. What is forgotten is only work.
func (x *Index) makeRoom() {
	if len(x.classes) == 0 || len(x.classes)*len(x.nodes) < x.maxCells {
		return
	}
	var oldest *standing
	for _, s := range x.classes {
		if oldest == nil || s.used < oldest.used { // uses are unique
			oldest = s
		}
	}
	delete(x.classes, oldest.class)
}

// rate fills the cell of a node.
func (x *Index) rate(s *standing, ordinal int) *cell {
	x.ratings++
	g, c := &x.gates[ordinal], &s.cells[ordinal]
	c.version = g.version
	if c.fits = g.admits(&s.class); c.fits {
		c.Rating = x.policy.Rate(&s.class, &x.nodes[ordinal])
	}
	return c
}

// rateAlike is rate, unless a node of the same shape was rated in this round.
func (x *Index) rateAlike(s *standing, ordinal int) *cell {
	g, c := &x.gates[ordinal], &s.cells[ordinal]
	if !g.present {
		*c = cell{version: g.version}
		return c
	}
	v := &x.verdicts.each[g.shape]
	if v.round != x.verdicts.round {
		x.rate(s, ordinal)
		*v = verdict{x.verdicts.round, c.fits, c.Rating}
		return c
	}
	*c = cell{g.version, v.Rating, v.fits}
	return c
}

// rank rates all nodes, each shape once. Nodes are visited in the order of ties, so
// that what is left to sort by is the cost, a small number: no comparison of keys is
// made.
func (x *Index) rank(s *standing) {
	if len(s.cells) < len(x.nodes) {
		s.cells = make([]cell, len(x.nodes))
	}
	for _, b := range s.live {
		s.buckets[b].clear()
	}
	s.live = s.live[:0]
	x.lists.clear()
	x.verdicts.begin(len(x.twins.nodes))
	for _, ordinal := range x.tieOrder() {
		c := x.rateAlike(s, int(ordinal))
		if !c.fits {
			continue
		}
		if x.lists.add(c.Bucket, newKey(c.Cost, x.gates[ordinal].order, int(ordinal))) {
			s.live = append(s.live, c.Bucket)
		}
	}
	for _, b := range s.live {
		s.bucket(b).load(x.lists.sorted(b))
	}
}

// tieOrder is the nodes by order and ordinal.
func (x *Index) tieOrder() []int32 {
	if len(x.ties) != len(x.nodes) || x.tiesEpoch != x.orders {
		x.ties, x.tiesEpoch = x.ties[:0], x.orders
		for ordinal := range x.nodes {
			x.ties = append(x.ties, int32(ordinal))
		}
		slices.SortFunc(x.ties, func(a, b int32) int {
			return cmp.Compare(newKey(0, x.gates[a].order, int(a)), newKey(0, x.gates[b].order, int(b)))
		})
	}
	return x.ties
}

// rerank rates one node again, unless the cell is for its present state.
func (x *Index) rerank(s *standing, ordinal int) {
	for len(s.cells) <= ordinal {
		s.cells = append(s.cells, cell{})
	}
	g := &x.gates[ordinal]
	old := s.cells[ordinal]
	if old.version == g.version {
		return
	}
	now := x.rate(s, ordinal)
	if old.fits && now.fits && old.Bucket == now.Bucket && old.Cost == now.Cost {
		return
	}
	if old.fits {
		b := s.bucket(old.Bucket)
		b.remove(newKey(old.Cost, g.order, ordinal))
		if b.empty() {
			at := slices.Index(s.live, old.Bucket)
			s.live[at] = s.live[len(s.live)-1]
			s.live = s.live[:len(s.live)-1]
		}
	}
	if now.fits {
		b := s.bucket(now.Bucket)
		if b.empty() {
			s.live = append(s.live, now.Bucket)
		}
		b.insert(newKey(now.Cost, g.order, ordinal))
	}
}

func (s *standing) bucket(b uint16) *keys {
	for len(s.buckets) <= int(b) {
		s.buckets = append(s.buckets, keys{})
	}
	return &s.buckets[b]
}
