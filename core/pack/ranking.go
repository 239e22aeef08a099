package pack

import (
	"cmp"
	"slices"
)

// journal is the list of nodes that changed, oldest first. Only the recent part
// is kept: a ranking that is further behind than there are nodes looks at all of them.
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

// ranking returns the order of a class, brought up to date.
func (x *Index) ranking(c *Class) *ranking {
	s := x.classes[*c]
	if s == nil {
		x.makeRoom()
		s = &ranking{class: *c, read: -1}
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
	var oldest *ranking
	for _, s := range x.classes {
		if oldest == nil || s.used < oldest.used { // uses are unique
			oldest = s
		}
	}
	delete(x.classes, oldest.class)
}

// rate asks the policy about a node the class fits on.
func (x *Index) rate(s *ranking, ordinal int) Rating {
	x.ratings++
	return x.policy.Rate(&s.class, &x.nodes[ordinal])
}

// rank rates all nodes, each shape once. Nodes are visited in the order of ties, so
// that what is left to sort by is the cost, a small number: no comparison of keys is
// made.
func (x *Index) rank(s *ranking) {
	s.grow(len(x.nodes))
	clear(s.fits)
	for _, b := range s.live {
		s.buckets[b].clear()
	}
	s.live = s.live[:0]
	x.lists.clear()
	x.verdicts.begin(len(x.shapeSet.nodes))
	for _, ordinal := range x.tieOrder() {
		g := &x.gates[ordinal]
		if !g.admits(&s.class) {
			continue
		}
		v := &x.verdicts.each[g.shape]
		if v.round != x.verdicts.round {
			*v = verdict{x.verdicts.round, x.rate(s, int(ordinal))}
		}
		s.cells[ordinal] = cell{g.version, v.Rating}
		s.fits.set(int(ordinal))
		if x.lists.add(v.Bucket, newKey(v.Cost, g.order, int(ordinal))) {
			s.live = append(s.live, v.Bucket)
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

// rerank rates one node again, unless the cell is for its present state. Most nodes
// of a fleet in use have no room for a class, before and after: gate and
// bit alone show that, without touching the cell, which is far away in a large fleet.
func (x *Index) rerank(s *ranking, ordinal int) {
	g := &x.gates[ordinal]
	was, is := s.fits.has(ordinal), g.admits(&s.class)
	if !was && !is {
		return
	}
	s.grow(ordinal + 1)
	c := &s.cells[ordinal]
	old := *c
	if was && old.version == g.version {
		return
	}
	if is {
		*c = cell{g.version, x.rate(s, ordinal)}
		if was && old.Bucket == c.Bucket && old.Cost == c.Cost {
			return
		}
	}
	if was {
		s.fits.clear(ordinal)
		b := s.bucket(old.Bucket)
		b.remove(newKey(old.Cost, g.order, ordinal))
		if b.empty() {
			at := slices.Index(s.live, old.Bucket)
			s.live[at] = s.live[len(s.live)-1]
			s.live = s.live[:len(s.live)-1]
		}
	}
	if is {
		s.fits.set(ordinal)
		b := s.bucket(c.Bucket)
		if b.empty() {
			s.live = append(s.live, c.Bucket)
		}
		b.insert(newKey(c.Cost, g.order, ordinal))
	}
}

// grow makes room for so many nodes.
func (s *ranking) grow(nodes int) {
	if add := nodes - len(s.cells); add > 0 {
		s.cells = append(s.cells, make([]cell, add)...)
	}
	if add := (nodes+63)/64 - len(s.fits); add > 0 {
		s.fits = append(s.fits, make(bitset, add)...)
	}
}

func (s *ranking) bucket(b uint16) *keys {
	for len(s.buckets) <= int(b) {
		s.buckets = append(s.buckets, keys{})
	}
	return &s.buckets[b]
}

// bitset is a set of ordinals.
type bitset []uint64

func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }
func (b bitset) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clear(i int)    { b[i>>6] &^= 1 << (i & 63) }
