package memo

// suspension is that no start can be carried out: the API server cannot be written to.
type suspension struct {
	until    int64
	failures int
}

// Suspend notes that starts cannot be carried out now: none is decided for a while, longer
// each time.
func (m *Memo) Suspend() {
	s := &m.suspension
	if m.now < s.until {
		return // many starts fail for one cause
	}
	s.until = Later(m.now, m.timing.Suspend.After(s.failures))
	s.failures++
	m.WakeAt(s.until)
}

// Resume notes that a start was carried out.
func (m *Memo) Resume() { m.suspension = suspension{} }

// Suspended says whether no starts are decided now, or not long ago.
func (m *Memo) Suspended() bool { return m.suspension.failures > 0 }

// Halted says whether no start is to be decided now.
func (m *Memo) Halted() bool { return m.now < m.suspension.until }
