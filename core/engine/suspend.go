package engine

// suspension is that no start can be carried out: the API server cannot be written to.
type suspension struct {
	until    int64
	failures int
}

// Suspend tells that starts cannot be carried out now: none is decided for a while,
// longer each time.
func (e *Engine) Suspend() {
	s := &e.suspension
	if e.now < s.until {
		return // many starts fail for one cause
	}
	s.until = later(e.now, e.options.Timing.Suspend.after(s.failures))
	s.failures++
	e.wakeAt(s.until)
}

// Resume tells that a start was carried out.
func (e *Engine) Resume() { e.suspension = suspension{} }

// Suspended says whether no starts are decided now, or not long ago.
func (e *Engine) Suspended() bool { return e.suspension.failures > 0 }
