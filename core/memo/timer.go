package memo

import "slices"

// WakeAt asks for a step at a moment.
func (m *Memo) WakeAt(at int64) {
	i, _ := slices.BinarySearch(m.timers, at)
	m.timers = slices.Insert(m.timers, i, at)
}

// NextTimer is the first moment that was asked for; 0 when there is none.
func (m *Memo) NextTimer() int64 {
	if len(m.timers) == 0 {
		return 0
	}
	return m.timers[0]
}

// popTimers drops the moments that have come, and says whether there were any.
func (m *Memo) popTimers() bool {
	past := 0
	for past < len(m.timers) && m.timers[past] <= m.now {
		past++
	}
	m.timers = slices.Delete(m.timers, 0, past)
	return past > 0
}
