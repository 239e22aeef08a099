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
	n, c := &x.nodes[ordinal], &s.cells[ordinal]
	c.version = n.version
	if c.fits = n.fits(&s.class); c.fits {
		c.Rating = x.policy.Rate(&s.class, n)
	}
	return c
}

// rank rates all nodes.
func (x *Index) rank(s *standing) {
	if len(s.cells) < len(x.nodes) {
		s.cells = make([]cell, len(x.nodes))
	}
	type member struct {
		key    key
		bucket uint16
	}
	members := make([]member, 0, len(x.nodes))
	for ordinal := range x.nodes {
		if c := x.rate(s, ordinal); c.fits {
			members = append(members, member{newKey(c.Cost, x.nodes[ordinal].order, ordinal), c.Bucket})
		}
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.key, b.key))
	})
	for _, b := range s.live {
		s.buckets[b].chunks = s.buckets[b].chunks[:0]
	}
	s.live = s.live[:0]
	sorted := make([]key, len(members))
	for i, m := range members {
		sorted[i] = m.key
	}
	for from := 0; from < len(members); {
		b, to := members[from].bucket, from+1
		for to < len(members) && members[to].bucket == b {
			to++
		}
		s.bucket(b).load(sorted[from:to])
		s.live = append(s.live, b)
		from = to
	}
}

// rerank rates one node again, unless the cell is for its present state.
func (x *Index) rerank(s *standing, ordinal int) {
	for len(s.cells) <= ordinal {
		s.cells = append(s.cells, cell{})
	}
	n := &x.nodes[ordinal]
	old := s.cells[ordinal]
	if old.version == n.version {
		return
	}
	now := x.rate(s, ordinal)
	if old.fits && now.fits && old.Bucket == now.Bucket && old.Cost == now.Cost {
		return
	}
	if old.fits {
		b := s.bucket(old.Bucket)
		b.remove(newKey(old.Cost, n.order, ordinal))
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
		b.insert(newKey(now.Cost, n.order, ordinal))
	}
}

func (s *standing) bucket(b uint16) *keys {
	for len(s.buckets) <= int(b) {
		s.buckets = append(s.buckets, keys{})
	}
	return &s.buckets[b]
}
