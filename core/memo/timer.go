package memo

import "container/heap"

// timers are moments at which time alone changes what can be started: vetoes and pauses
// that end.
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

// WakeAt asks for a step at a moment.
func (m *Memo) WakeAt(at int64) { heap.Push(&m.timers, at) }

// NextTimer is the first moment that was asked for; 0 when there is none.
func (m *Memo) NextTimer() int64 {
	if len(m.timers) == 0 {
		return 0
	}
	return m.timers[0]
}

// popTimers drops the moments that have come, and says whether there were any.
func (m *Memo) popTimers() (some bool) {
	for len(m.timers) > 0 && m.timers[0] <= m.now {
		heap.Pop(&m.timers)
		some = true
	}
	return some
}
