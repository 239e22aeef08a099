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

// effects says of each cause whether it may give a place to a gang that had none (room) and
// whether it changes reservations or the fleet (layout).
var effects = [causes]struct{ room, layout bool }{
	ClaimEnded:       {room: true},
	ClaimMoved:       {room: true},
	CompanyCame:      {room: true},
	GangChanged:      {room: true},
	FleetChanged:     {room: true, layout: true},
	FleetCounted:     {room: true},
	RulesChanged:     {room: true},
	TimeCame:         {room: true},
	ReservationMade:  {layout: true},
	ReservationEnded: {room: true, layout: true},
}

// Version counts what has changed. What was found to fail is worth another try when the
// count that it depends on is another one.
type Version struct{ room, layout uint64 }

// Note counts a change. The part that makes the change calls it, so that no caller of that
// part can forget it.
func (v *Version) Note(c Cause) {
	if effects[c].room {
		v.room++
	}
	if effects[c].layout {
		v.layout++
	}
}

// RoomVersion counts what may give a place to a gang that had none.
func (v *Version) RoomVersion() uint64 { return v.room }

// LayoutVersion counts changes of reservations and of the fleet.
func (v *Version) LayoutVersion() uint64 { return v.layout }
