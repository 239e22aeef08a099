package pack

import (
	"container/heap"
	"iter"
)

// Candidates yields all nodes on which the class fits, best first. Taking the
// first few costs little more than Best: buckets are merged step by step. The
// index must not change meanwhile.
func (x *Index) Candidates(c *Class) iter.Seq[Choice] {
	return func(yield func(Choice) bool) {
		s := x.ranking(c)
		x.policy.Begin(c)
		m := make(merge, 0, len(s.live))
		for _, b := range s.live {
			m = append(m, cursor{list: &s.buckets[b], shift: x.policy.Shift(c, int(b))})
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(x.choice(s, m[0].entry())) {
				return
			}
			if m[0].next() {
				heap.Fix(&m, 0)
			} else {
				heap.Pop(&m)
			}
		}
	}
}

// Heads yields the best node of each bucket on which the class fits: one of each
// model and fullness. It is for callers that weigh other
// objectives beside this one.
func (x *Index) Heads(c *Class) iter.Seq[Choice] {
	return func(yield func(Choice) bool) {
		s := x.ranking(c)
		x.policy.Begin(c)
		for _, b := range s.live {
			if !yield(x.choice(s, entry{s.buckets[b].first(), x.policy.Shift(c, int(b))})) {
				return
			}
		}
	}
}

// cursor is a position in a bucket.
type cursor struct {
	list      *keys
	chunk, at int
	shift     Shift
}

func (c *cursor) entry() entry { return entry{c.list.chunks[c.chunk][c.at], c.shift} }

// next moves on; false at the end.
func (c *cursor) next() bool {
	if c.at++; c.at == len(c.list.chunks[c.chunk]) {
		c.chunk, c.at = c.chunk+1, 0
	}
	return c.chunk < len(c.list.chunks)
}

// merge is a heap of cursors, best entry first. It implements heap.Interface.
type merge []cursor

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].entry().before(m[j].entry()) }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(v any)        { *m = append(*m, v.(cursor)) }

func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
