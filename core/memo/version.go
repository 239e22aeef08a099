package memo

// Cause is why something that failed may succeed now.
type Cause uint8

// Causes.
const (
	// ClaimEnded: devices, or what was promised of them, are free.
	ClaimEnded Cause = iota
	// ClaimMoved: a holder has other devices or labels than before.
	ClaimMoved
	// CompanyCame: a gang has started that others want to be near.
	CompanyCame
	// GangChanged: a gang lost members, was undone or withdrawn.
	GangChanged
	// FleetChanged: a node came, went or has another inventory.
	FleetChanged
	// FleetCounted: queues share another total.
	FleetCounted
	// RulesChanged: queues, quotas or rules that core does not know are others.
	RulesChanged
	// TimeCame: a veto or a pause has ended.
	TimeCame
	// ReservationMade: nodes are kept for a gang.
	ReservationMade
	// ReservationEnded: they are not kept any more.
	ReservationEnded
	causes
)

// effects says of each cause whether it may give a place to a gang that had none (frees) and
// whether it changes reservations or the fleet (moves).
var effects = [causes]struct{ frees, moves bool }{
	ClaimEnded:       {frees: true},
	ClaimMoved:       {frees: true},
	CompanyCame:      {frees: true},
	GangChanged:      {frees: true},
	FleetChanged:     {frees: true, moves: true},
	FleetCounted:     {frees: true},
	RulesChanged:     {frees: true},
	TimeCame:         {frees: true},
	ReservationMade:  {moves: true},
	ReservationEnded: {frees: true, moves: true},
}

// Version counts what has changed. What was found to fail is worth another try when the
// count that it depends on is another one.
type Version struct {
	freed, moved uint64
}

// Note counts a change. The part that makes the change calls it, so that no caller of that
// part can forget it.
func (v *Version) Note(c Cause) {
	if effects[c].frees {
		v.freed++
	}
	if effects[c].moves {
		v.moved++
	}
}

// Freed counts what may give a place to a gang that had none.
func (v *Version) Freed() uint64 { return v.freed }

// Moved counts changes of reservations and of the fleet.
func (v *Version) Moved() uint64 { return v.moved }
