package sim

import "container/heap"

// events is a queue of events, the earliest first.
type events[E interface{ Before(E) bool }] struct{ list eventHeap[E] }

func (e *events[E]) add(event E) { heap.Push(&e.list, event) }

// next removes the earliest event and returns it.
func (e *events[E]) next() E { return heap.Pop(&e.list).(E) }

// first is the earliest event, false when there is none.
func (e *events[E]) first() (event E, ok bool) {
	if len(e.list) == 0 {
		return event, false
	}
	return e.list[0], true
}

// eventHeap implements heap.Interface.
type eventHeap[E interface{ Before(E) bool }] []E

func (h eventHeap[E]) Len() int           { return len(h) }
func (h eventHeap[E]) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h eventHeap[E]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *eventHeap[E]) Push(v any)        { *h = append(*h, v.(E)) }

func (h *eventHeap[E]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
