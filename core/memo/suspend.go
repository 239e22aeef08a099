package memo

// Suspension is that no start can be carried out: the API server cannot be written to.
type Suspension struct {
	Until    int64
	Failures int
}

// Suspend notes that starts cannot be carried out now: none is decided for a while, longer
// each time.
func (m *Memo) Suspend() {
	s := &m.suspension
	if m.now < s.Until {
		return // many starts fail for one cause
	}
	s.Until = Later(m.now, m.timing.Suspend.After(s.Failures))
	s.Failures++
	m.WakeAt(s.Until)
}

// Resume notes that a start was carried out.
func (m *Memo) Resume() { m.suspension = Suspension{} }

// Suspended says whether no starts are decided now, or not long ago.
func (m *Memo) Suspended() bool { return m.suspension.Failures > 0 }

// Halted says whether no start is to be decided now.
func (m *Memo) Halted() bool { return m.now < m.suspension.Until }
