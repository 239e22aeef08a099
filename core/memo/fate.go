package memo

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// MaxFates bounds how many gang shapes' fate is remembered: more than wait in all but the
// largest clusters, and some megabytes.
const MaxFates = 16384

// Fates is what is known of gang shapes: which have no place even where nothing is reserved,
// and which can never have one. Gangs are offered a start in rounds; a round that costs too
// much goes on in the next step, and until it has come to its end every shape is tried once
// only, whatever was freed meanwhile.
type Fates struct {
	version *Version
	full    map[model.GangShape]noPlace
	// round numbers the passes over all waiting gangs; unfinished: the last step ended
	// before its round did.
	round      uint64
	unfinished bool
	// impossible is why shapes can never fit, nil of those that can, as of a version of the
	// fleet.
	impossible map[model.GangShape]*explain.Reason
	fleet      uint64
}

// noPlace is that a gang shape has no place: as of a RoomVersion, found in a round.
type noPlace struct{ room, round uint64 }

func newFates(v *Version) Fates {
	return Fates{version: v, full: map[model.GangShape]noPlace{}, impossible: map[model.GangShape]*explain.Reason{}}
}

// BeginRound begins a round, or goes on with one that is not finished.
func (f *Fates) BeginRound() {
	if !f.unfinished {
		f.round++
	}
	f.unfinished = false
}

// Interrupt ends a step before its round is finished.
func (f *Fates) Interrupt() { f.unfinished = true }

// Unfinished says whether the last step ended before its round did.
func (f *Fates) Unfinished() bool { return f.unfinished }

// EndRound forgets which shapes have no place when they are many and the round is finished.
func (f *Fates) EndRound() {
	if len(f.full) > MaxFates && !f.unfinished {
		clear(f.full)
	}
}

// Offered says whether a gang was offered in this round already and need not be planned.
func (f *Fates) Offered(g *Gang) bool { return g.offered == f.round }

// Offer notes that a gang was offered in this round.
func (f *Fates) Offer(g *Gang) { g.offered = f.round }

// Full says whether a shape has no place as of now, or was found to have none in this round.
func (f *Fates) Full(s model.GangShape) bool {
	x, known := f.full[s]
	return known && (x.room == f.version.room || x.round == f.round)
}

// FullNow says whether a shape has no place as of now.
func (f *Fates) FullNow(s model.GangShape) bool {
	x, known := f.full[s]
	return known && x.room == f.version.room
}

// TriedInRound says whether a shape was found to have no place in this round.
func (f *Fates) TriedInRound(s model.GangShape) bool { return f.full[s].round == f.round }

// SetFull notes that a shape has no place.
func (f *Fates) SetFull(s model.GangShape) { f.full[s] = noPlace{f.version.room, f.round} }

// Never is why a shape can never fit the fleet of a version, found by find once.
func (f *Fates) Never(s model.GangShape, fleet uint64, find func() *explain.Reason) *explain.Reason {
	if fleet != f.fleet || len(f.impossible) > MaxFates {
		f.fleet = fleet
		clear(f.impossible)
	}
	r, known := f.impossible[s]
	if !known {
		r = find()
		f.impossible[s] = r
	}
	return r
}

// ForgetImpossible makes Never find its reasons anew: rules have changed that core does not
// know.
func (f *Fates) ForgetImpossible() { clear(f.impossible) }
