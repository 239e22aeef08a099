package dispatch

import (
	"slices"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// attempts remembers, during one decision, what found no place. Nodes only get fuller
// meanwhile, so what fits alike need not be tried again where as much is closed to it.
type attempts struct {
	engine *Engine
	// generation of the reservations that the sets below speak of.
	generation uint64
	shapes     map[string]*attempt
	// seen are gangs with a reservation that had their turn.
	seen map[ID]bool
	// tries are plans made in vain, offers all gangs that were turned away.
	tries, offers int
}

// attempt is what is known of gangs that fit alike.
type attempt struct {
	// failed are the sets of reservations outside of which there was no place.
	failed []failedSet
	// looked says that fits is known: whether there was a place without reservations.
	looked, fits bool
}

type failedSet struct {
	before  uint64
	failure *gang.Failure
}

// offersPerTry is how many gangs may be turned away for the price of one plan.
const offersPerTry = 16

func newAttempts(e *Engine) *attempts {
	return &attempts{engine: e, generation: e.generation, shapes: map[string]*attempt{}, seen: map[ID]bool{}}
}

func (a *attempts) of(k *known) *attempt {
	if a.generation != a.engine.generation { // positions have changed
		a.generation = a.engine.generation
		for _, t := range a.shapes {
			t.failed = nil
		}
	}
	t := a.shapes[k.shape]
	if t == nil {
		t = &attempt{}
		a.shapes[k.shape] = t
	}
	return t
}

// failed says why a gang cannot have a place, if that is known already.
func (a *attempts) failed(k *known, now int64) *gang.Failure {
	t := a.of(k)
	if a.engine.reservationOf(k.ID) != nil {
		a.seen[k.ID] = true
	}
	if len(t.failed) == 0 || len(a.engine.reserved) > 64 {
		return nil
	}
	before := a.engine.before(k, now)
	for _, f := range t.failed {
		if f.before&^before == 0 {
			a.offers++
			return f.failure
		}
	}
	return nil
}

// note remembers that a gang has no place.
func (a *attempts) note(k *known, failure *gang.Failure, now int64) {
	a.tries++
	a.offers++
	t := a.of(k)
	before := a.engine.before(k, now)
	t.failed = append(slices.DeleteFunc(t.failed, func(f failedSet) bool { return before&^f.before == 0 }), failedSet{before, failure})
	if before == 0 {
		t.looked, t.fits = true, false
	}
}

// mayFit says whether another gang like this one may have a place: one for which nodes
// are reserved, or that ends before they are needed.
func (a *attempts) mayFit(k *known, now int64) bool {
	t := a.of(k)
	for _, r := range a.engine.reserved {
		if !a.seen[r.id] && a.engine.gangs[r.id].shape == k.shape {
			return true
		}
	}
	if short := a.engine.shortest(k.shape); short != nil {
		before := a.engine.before(short, now)
		if slices.ContainsFunc(t.failed, func(f failedSet) bool { return f.before&^before == 0 }) {
			return false
		}
	}
	if !t.looked {
		t.looked = true
		if len(a.engine.reserved) > 0 {
			a.tries++
			t.fits = a.engine.fitsWithoutReservations(k)
		}
	}
	return t.fits
}

func (a *attempts) enough() bool {
	return a.tries >= a.engine.options.Tries || a.offers >= offersPerTry*a.engine.options.Tries
}

func (e *Engine) fitsWithoutReservations(k *known) bool {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	ask := k.ask(k.missing())
	ask.Weights = e.options.Weights
	if e.options.May != nil {
		ask.May = func(role int, node model.NodeID) bool { return e.options.May(k.Roles[role].Request, node) }
	}
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure == nil
}
