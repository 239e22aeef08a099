package engine

// attempt is something the engine tries for a gang that may fail, and that is not
// worth another try before something has changed.
type attempt uint8

// Attempts, with what was tried in futile.
const (
	// growing: a place for a member beyond the minimum.
	growing attempt = iota
	// mending: places for groups of a running gang that must be whole.
	mending
	// inheriting: nodes that are being freed by departures that were not asked for.
	inheriting
	// evicting: victims whose departure lets the gang start.
	evicting
	// reserving: an earliest start, for a gang whose patience is over.
	reserving
	// reservingEarly: the same before that, for which the end of what runs must be known.
	reservingEarly
	// reservingAny: the same for either, as long as reservations and fleet are the same.
	reservingAny
	// keeping: a start on idle nodes that were kept for the gang.
	keeping
	attempts
)

// retryRule says after what a failed attempt is worth another try.
type retryRule struct {
	// freed: once something was freed anywhere, or the pause is over if there is one.
	// generation: once reservations or the fleet changed.
	freed, generation bool
	// pause is how many steps pass, doubled with every failure in a row up to most.
	pause, most uint64
}

// maxPause bounds how many steps pass before victims are looked for again for a gang
// that none could help.
const maxPause = 64

// reservePause is how many steps pass before it is tried again to reserve for a gang
// that would wait for pods whose end is not known.
const reservePause = 16

// mendPause is how many steps pass before groups of a running gang are tried again though
// nothing was freed: what its queue may use can have changed.
const mendPause = 16

// retryRules has one rule per attempt.
var retryRules = [attempts]retryRule{
	growing:        {freed: true},
	mending:        {freed: true, pause: mendPause, most: mendPause},
	inheriting:     {freed: true},
	evicting:       {pause: 1, most: maxPause},
	reserving:      {pause: reservePause, most: reservePause},
	reservingEarly: {pause: reservePause, most: reservePause},
	reservingAny:   {generation: true},
	keeping:        {pause: maxPause, most: maxPause},
}

// failure is the last failure of one attempt. The zero value is none.
type failure struct {
	failed            bool
	freed, generation uint64
	until, pause      uint64 // in steps
}

// retries are a gang's failed attempts.
type retries [attempts]failure

// worthTrying says whether an attempt for a gang may succeed as far as is known.
func (e *Engine) worthTrying(k *known, a attempt) bool {
	f, rule := &k.retries[a], &retryRules[a]
	switch {
	case !f.failed:
		return true
	case rule.freed:
		return f.freed != e.freed || rule.pause > 0 && e.steps >= f.until
	case rule.generation:
		return f.generation != e.generation
	}
	return e.steps >= f.until
}

// failed takes note that an attempt for a gang failed now.
func (e *Engine) failed(k *known, a attempt) {
	f, rule := &k.retries[a], &retryRules[a]
	f.pause = min(max(rule.pause, 2*f.pause), rule.most)
	*f = failure{failed: true, freed: e.freed, generation: e.generation, until: e.steps + f.pause, pause: f.pause}
}

// succeeded forgets the failures of an attempt.
func (g *known) succeeded(a attempt) { g.retries[a] = failure{} }
