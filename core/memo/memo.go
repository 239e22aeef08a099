package memo

// Memo is what one engine remembers. Not safe for concurrent use.
type Memo struct {
	Version
	Vetoes
	Fates
	// timers are moments at which time alone changes what can be started, sorted: vetoes and
	// pauses that end.
	timers     []int64
	suspension Suspension
	timing     *Timing
	// steps counts steps, now is the time of the last event or step.
	steps uint64
	now   int64
}

// New remembers nothing. The timing is read whenever it is needed: its owner may change it.
func New(timing *Timing) *Memo {
	m := &Memo{timing: timing}
	m.Vetoes = newVetoes(timing)
	m.Fates = newFates(&m.Version)
	return m
}

// Now is the time as the engine was last told.
func (m *Memo) Now() int64 { return m.now }

// Steps counts the steps so far.
func (m *Memo) Steps() uint64 { return m.steps }

// Tick tells the time of an event; it does not go back.
func (m *Memo) Tick(now int64) { m.now = max(m.now, now) }

// Step begins a step at a time: pauses and vetoes that are over by then have ended.
func (m *Memo) Step(now int64) {
	m.steps++
	m.now = now
	if m.popTimers() {
		m.Note(TimeCame)
	}
	m.Vetoes.expire(now)
}
