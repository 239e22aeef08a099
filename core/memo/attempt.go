package memo

// Attempt is something the engine tries for a gang that may fail, and that is not worth
// another try before something has changed.
type Attempt uint8

// Attempts.
const (
	// Growing: a place for a member beyond the minimum.
	Growing Attempt = iota
	// Mending: places for groups of a running gang that must be whole.
	Mending
	// Inheriting: nodes that are being freed by departures that were not asked for.
	Inheriting
	// Evicting: victims whose departure lets the gang start.
	Evicting
	// Reserving: an earliest start, for a gang whose patience is over.
	Reserving
	// ReservingEarly: the same before that, for which the end of what runs must be known.
	ReservingEarly
	// ReservingAny: the same for either, as long as reservations and fleet are the same.
	ReservingAny
	// Keeping: a start on idle nodes that were kept for the gang.
	Keeping
	attempts
)

// retryRule says after what a failed attempt is worth another try.
type retryRule struct {
	// onRoom: once RoomVersion is another one, or the pause is over if there is one.
	// onLayout: once LayoutVersion is.
	onRoom, onLayout bool
	// pause is how many steps pass, doubled with every failure in a row up to most.
	pause, most uint64
}

// maxPause bounds how many steps pass before victims are looked for again for a gang
// that none could help.
const maxPause = 64

// ReservePause is how many steps pass before it is tried again to reserve for a gang
// that would wait for pods whose end is not known.
const ReservePause = 16

// mendPause is how many steps pass before groups of a running gang are tried again though
// nothing was freed: what its queue may use can have changed.
const mendPause = 16

// retryRules has one rule per attempt.
var retryRules = [attempts]retryRule{
	Growing:        {onRoom: true},
	Mending:        {onRoom: true, pause: mendPause, most: mendPause},
	Inheriting:     {onRoom: true},
	Evicting:       {pause: 1, most: maxPause},
	Reserving:      {pause: ReservePause, most: ReservePause},
	ReservingEarly: {pause: ReservePause, most: ReservePause},
	ReservingAny:   {onLayout: true},
	Keeping:        {pause: maxPause, most: maxPause},
}

// failure is the last failure of one attempt. The zero value is none.
type failure struct {
	failed       bool
	room, layout uint64 // versions at which it failed
	until, pause uint64 // in steps
}

// WorthTrying says whether an attempt for a gang may succeed as far as is known.
func (m *Memo) WorthTrying(g *Gang, a Attempt) bool {
	f, rule := &g.tries[a], &retryRules[a]
	switch {
	case !f.failed:
		return true
	case rule.onRoom:
		return f.room != m.room || rule.pause > 0 && m.steps >= f.until
	case rule.onLayout:
		return f.layout != m.layout
	}
	return m.steps >= f.until
}

// Failed notes that an attempt for a gang failed now.
func (m *Memo) Failed(g *Gang, a Attempt) { m.FailedAt(g, a, m.room) }

// FailedAt notes that an attempt for a gang failed, which began at a RoomVersion: room
// that came since makes it worth another try.
func (m *Memo) FailedAt(g *Gang, a Attempt, room uint64) {
	f, rule := &g.tries[a], &retryRules[a]
	pause := min(max(rule.pause, 2*f.pause), rule.most)
	*f = failure{failed: true, room: room, layout: m.layout, until: m.steps + pause, pause: pause}
}

// Succeeded forgets the failures of an attempt.
func (g *Gang) Succeeded(a Attempt) { g.tries[a] = failure{} }
