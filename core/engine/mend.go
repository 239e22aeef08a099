package engine

import (
	"slices"

	"github.com/tangram-dev/tangram/core/memo"
)

// maxMends is how many groups of a gang a step tries to make whole.
const maxMends = 16

// mends is how far it is with making a gang's groups whole.
type mends struct {
	// tried are the groups tried since RoomVersion was room; nil: all have been. fails,
	// shortNow: one of them failed, for want of room.
	tried           map[int]bool
	room            uint64
	fails, shortNow bool
	// short: when all had been tried, one of them needed room.
	short bool
}

// mend makes the groups of a running gang whole that lost members, each for itself, and
// starts those that are needed in place of others. It says whether one of them needs room.
// A step tries maxMends of them, the next one goes on; those that failed are tried again
// when something has changed.
func (e *Engine) mend(d *Plan, k *tracked, now int64) (short bool) {
	m := e.mends[k.ID]
	if m == nil {
		m = &mends{}
		e.mends[k.ID] = m
	}
	if !e.memo.WorthTrying(&k.Memo, memo.Mending) {
		return m.short
	}
	if m.tried == nil {
		m.tried, m.room, m.fails, m.shortNow = map[int]bool{}, e.memo.RoomVersion(), false, false
	}
	for n := 0; ; n++ {
		at := slices.IndexFunc(k.UnitsToMend(), func(i int) bool { return !m.tried[i] })
		if at < 0 {
			break
		}
		if n == maxMends {
			d.More = true
			return m.short || m.shortNow
		}
		unit := k.UnitsToMend()[at]
		m.tried[unit] = true
		if s, ok := e.tryAsk(k, e.cluster.Limited(k, k.AskForUnit(unit)), nil, now); ok {
			e.repaired(d, k, s)
			continue
		}
		m.fails = true
		m.shortNow = m.shortNow || !e.cluster.Allows(k, k.UnitNeeds(unit)).ForQuota()
	}
	m.tried, m.short = nil, m.shortNow
	if m.fails {
		e.memo.FailedAt(&k.Memo, memo.Mending, m.room) // what was freed meanwhile may help the first ones
	} else {
		k.Memo.Succeeded(memo.Mending)
	}
	return m.short
}

// growUnits starts optional groups of a running gang, each whole, and gives leaves more
// members, as far as there is room.
func (e *Engine) growUnits(d *Plan, k *tracked, now int64) {
	tried, failed := map[int]bool{}, false
	for e.memo.WorthTrying(&k.Memo, memo.Growing) && len(k.UnitsToMend()) == 0 {
		at := slices.IndexFunc(k.UnitsToGrow(), func(i int) bool { return !tried[i] })
		if at < 0 {
			break
		}
		unit := k.UnitsToGrow()[at]
		tried[unit] = true
		ask := e.cluster.Limited(k, k.AskForUnit(unit))
		if k.UnitWhole(unit) {
			ask.Tree.Groups[unit].Min = 0 // more members, whichever fit
		}
		s, ok := e.tryAsk(k, ask, nil, now)
		if !ok {
			failed = true
			continue
		}
		e.repaired(d, k, s)
	}
	if failed {
		e.memo.Failed(&k.Memo, memo.Growing)
	}
}
