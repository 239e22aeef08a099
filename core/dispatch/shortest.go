package dispatch

import (
	"cmp"
	"container/heap"
)

// brief is a gang that waits, in a heap of those that fit alike.
type brief struct {
	runtime int64
	id      ID
}

type briefs []brief

func (b briefs) Len() int      { return len(b) }
func (b briefs) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *briefs) Push(v any)   { *b = append(*b, v.(brief)) }

func (b briefs) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(b[i].runtime, b[j].runtime), cmp.Compare(b[i].id, b[j].id)) < 0
}

func (b *briefs) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

func briefOf(k *known) brief {
	if k.Runtime == 0 {
		return brief{never, k.ID}
	}
	return brief{int64(k.Runtime), k.ID}
}

// shortest is the gang of a shape that waits and is expected to run shortest, nil when
// none waits. Gangs leave the heap only here, when they are found not to wait.
func (e *Engine) shortest(shape string) *known {
	h := e.briefs[shape]
	if h == nil {
		return nil
	}
	for len(*h) > 0 {
		top := (*h)[0]
		if k := e.gangs[top.id]; k != nil && len(k.placed) == 0 && k.shape == shape && briefOf(k) == top {
			return k
		}
		heap.Pop(h)
	}
	delete(e.briefs, shape)
	return nil
}

// waits enters a gang among those that fit alike.
func (e *Engine) waits(k *known) {
	h := e.briefs[k.shape]
	if h == nil {
		h = &briefs{}
		e.briefs[k.shape] = h
	}
	heap.Push(h, briefOf(k))
}
