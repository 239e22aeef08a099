package engine

import "container/heap"

// timers are moments at which time alone changes what can be started: vetoes and pauses
// that end. Releases are watched apart (Engine.watchAt): that they are late gives no gang
// a place.
type timers []int64

// Len, Less, Swap, Push and Pop are for container/heap.
func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i] < t[j] }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(int64)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// wakeAt asks for a step at a moment.
func (e *Engine) wakeAt(at int64) { heap.Push(&e.timers, at) }

// popTimers drops the moments that have come, and says whether there were any.
func (e *Engine) popTimers(now int64) (some bool) {
	for len(e.timers) > 0 && e.timers[0] <= now {
		heap.Pop(&e.timers)
		some = true
	}
	return some
}

// Wake is when the next step is due though nothing happens; 0: not by itself.
func (e *Engine) Wake() int64 {
	if len(e.timers) > 0 && (e.watchAt == 0 || e.timers[0] < e.watchAt) {
		return e.timers[0]
	}
	return e.watchAt
}
