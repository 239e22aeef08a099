package arbiter

import "slices"

// chunkSize bounds what one insertion moves: 2 KiB of pointers.
const chunkSize = 256

// list keeps jobs sorted by a total order that does not change while they are in
// it. It is a row of sorted chunks: insertion and removal find their place by
// bisection and move one chunk at most.
//
// Invariant: no chunk is empty; the last of a chunk sorts before the first of the
// next.
type list struct {
	compare func(a, b *entry) int
	chunks  [][]*entry
}

// chunk returns the first chunk whose last job does not sort before e.
func (l *list) chunk(e *entry) int {
	i, _ := slices.BinarySearchFunc(l.chunks, e, func(c []*entry, e *entry) int {
		return l.compare(c[len(c)-1], e)
	})
	return i
}

func (l *list) insert(e *entry) {
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, []*entry{e})
		return
	}
	i := min(l.chunk(e), len(l.chunks)-1)
	c := l.chunks[i]
	at, _ := slices.BinarySearchFunc(c, e, l.compare)
	c = slices.Insert(c, at, e)
	l.chunks[i] = c
	if len(c) > chunkSize {
		l.chunks = slices.Insert(l.chunks, i+1, slices.Clone(c[chunkSize/2:]))
		l.chunks[i] = slices.Delete(c, chunkSize/2, len(c))
	}
}

// remove takes out a job that is in the list.
func (l *list) remove(e *entry) {
	i := l.chunk(e)
	c := l.chunks[i]
	at, _ := slices.BinarySearchFunc(c, e, l.compare)
	if c = slices.Delete(c, at, at+1); len(c) == 0 {
		l.chunks = slices.Delete(l.chunks, i, i+1)
	} else {
		l.chunks[i] = c
	}
}

// after returns the first job that sorts behind e, which need not be in the list;
// the very first when e is nil; nil at the end.
func (l *list) after(e *entry) *entry {
	if e == nil {
		if len(l.chunks) == 0 {
			return nil
		}
		return l.chunks[0][0]
	}
	i := l.chunk(e)
	if i == len(l.chunks) {
		return nil
	}
	c := l.chunks[i]
	at, found := slices.BinarySearchFunc(c, e, l.compare)
	if found {
		at++
	}
	if at < len(c) {
		return c[at]
	}
	if i+1 < len(l.chunks) {
		return l.chunks[i+1][0]
	}
	return nil
}

func (l *list) empty() bool { return len(l.chunks) == 0 }

// cursor is a place in a list that does not change meanwhile.
type cursor struct {
	list      *list
	chunk, at int
}

// job is the one at the cursor; nil behind the last.
func (c *cursor) job() *entry {
	if c.chunk == len(c.list.chunks) {
		return nil
	}
	return c.list.chunks[c.chunk][c.at]
}

// move goes to the next job.
func (c *cursor) move() {
	if c.at++; c.at == len(c.list.chunks[c.chunk]) {
		c.chunk, c.at = c.chunk+1, 0
	}
}
