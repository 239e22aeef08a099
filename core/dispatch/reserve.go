package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// reservation is nodes kept for a gang from a time on.
type reservation struct {
	id    ID
	at    int64
	guess bool // at rests on runs whose end nobody knows
	nodes map[model.NodeID]bool
	// until, when not 0, says that the nodes are being freed for the gang: nobody else
	// may use them before then.
	until int64
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// before says which reservations a gang must respect, as a set of positions in
// reserved: those of others who need their nodes before it would end. Of positions
// beyond 63 the last bit speaks.
func (e *Engine) before(k *known, now int64) uint64 {
	end := never
	if k.Runtime > 0 {
		end = now + int64(k.Runtime)
	}
	set := uint64(0)
	for i, r := range e.reserved {
		if r.id != k.ID && (r.until > 0 || end > r.at) {
			set |= 1 << min(i, 63)
		}
	}
	return set
}

// closedTo are the nodes a gang must leave alone. nil when there are none.
func (e *Engine) closedTo(k *known, now int64) map[model.NodeID]bool {
	set := e.before(k, now)
	var out map[model.NodeID]bool
	for i, r := range e.reserved {
		if r.id == k.ID || set&(1<<min(i, 63)) == 0 {
			continue
		}
		if out == nil {
			out = map[model.NodeID]bool{}
		}
		for id := range r.nodes {
			out[id] = true
		}
	}
	return out
}

// Reservation says when a gang is expected to start and on which nodes, sorted;
// false when it has no reservation, a time of 0 when nobody knows.
func (e *Engine) Reservation(id ID) (at int64, nodes []model.NodeID, ok bool) {
	for _, r := range e.reserved {
		if r.id == id {
			for n := range r.nodes {
				nodes = append(nodes, n)
			}
			slices.Sort(nodes)
			if !r.guess {
				at = r.at
			}
			return at, nodes, true
		}
	}
	return 0, nil, false
}

// renew finds anew where and when gangs start whose time came and went: what was
// expected to end did not. It happens before anybody else is looked at, lest they take
// what was kept so far.
func (e *Engine) renew(now int64) {
	var again []ID
	for _, r := range e.reserved {
		if r.until == 0 && r.at < now {
			again = append(again, r.id)
		}
	}
	e.unreserve(func(r *reservation) bool { return max(r.at, r.until) < now })
	for _, id := range again {
		e.reserve(e.gangs[id], now)
	}
}

// slack is how much longer a run is expected to take when it outlasts what was
// expected, at first; then twice as long, and so on. So a run that is late by seconds
// is expected to end in a minute, and one of which nothing is known to last about as
// long again as it has.
const slack = int64(time.Minute)

// expectedEnd is when a gang that runs will end, always after now, and whether that is
// a guess.
func expectedEnd(k *known, now int64) (at int64, guess bool) {
	at = k.started + int64(k.Runtime)
	for more := slack; at <= now; more *= 2 {
		at, guess = k.started+int64(k.Runtime)+more, true
	}
	return at, guess || k.Runtime == 0
}

// unreserve drops reservations.
func (e *Engine) unreserve(drop func(*reservation) bool) {
	before := len(e.reserved)
	if e.reserved = slices.DeleteFunc(e.reserved, drop); len(e.reserved) != before {
		e.generation++
	}
}

// reservationOf is a gang's reservation, or nil.
func (e *Engine) reservationOf(id ID) *reservation {
	for _, r := range e.reserved {
		if r.id == id {
			return r
		}
	}
	return nil
}

// reserve finds the earliest start of a gang that does not fit now, from the expected
// ends of what runs, and keeps its nodes. Reservations never share a node: two that
// did would wait for each other. A gang that finds nothing beside those of others may
// displace younger ones, so the oldest always finds a start if there is any.
//
// Who needs a single device gets none: whatever ends makes room for it, and in its
// turn it is offered that.
func (e *Engine) reserve(k *known, now int64) {
	if len(e.reserved) >= e.options.Reservations || e.reservationOf(k.ID) != nil || k.unreservable == e.generation+1 || k.single() {
		return
	}
	ends := e.endings(now)
	taken, younger := map[model.NodeID]bool{}, map[model.NodeID]bool{}
	for _, r := range e.reserved {
		to := taken
		if o := e.gangs[r.id]; r.until == 0 && (o.Submitted > k.Submitted || o.Submitted == k.Submitted && o.ID > k.ID) {
			to = younger
		}
		for id := range r.nodes {
			to[id] = true
		}
	}
	r := e.earliest(k, ends, func(id model.NodeID) bool { return !taken[id] && !younger[id] })
	if r == nil && len(younger) > 0 {
		r = e.earliest(k, ends, func(id model.NodeID) bool { return !taken[id] })
	}
	if r == nil {
		k.unreservable = e.generation + 1
		return // not even an empty cluster would do, or others have reserved it
	}
	e.unreserve(func(o *reservation) bool {
		for id := range o.nodes {
			if r.nodes[id] {
				return true
			}
		}
		return false
	})
	e.reserved = append(e.reserved, r)
	e.generation++
}

// runEnd is when a gang that runs is expected to end.
type runEnd struct {
	k     *known
	at    int64
	guess bool
}

// endings lists what runs, the first to end first.
func (e *Engine) endings(now int64) []runEnd {
	ends := make([]runEnd, 0, len(e.running))
	for _, o := range e.running {
		at, guess := expectedEnd(o, now)
		ends = append(ends, runEnd{o, at, guess})
	}
	slices.SortFunc(ends, func(a, b runEnd) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.k.started, b.k.started), cmp.Compare(a.k.ID, b.k.ID))
	})
	return ends
}

// earliest is when and where a gang fits first on nodes that may be used, nil when
// nothing's end helps. The first so many ends let it fit, and more ends never hurt, so
// the search is by halves.
func (e *Engine) earliest(k *known, ends []runEnd, may func(model.NodeID) bool) *reservation {
	try := func(count int) (gang.Plan, bool) {
		tx := e.ledger.Begin()
		defer tx.Rollback()
		for _, end := range ends[:count] {
			for h, s := range end.k.placed { // the order does not matter
				if may(s.node) {
					e.ledger.Drop(h)
				}
			}
		}
		ask := k.ask(k.missing())
		ask.Weights = e.options.Weights
		ask.May = func(role int, node model.NodeID) bool {
			return may(node) && (e.options.May == nil || e.options.May(k.Roles[role].Request, node))
		}
		plan, failure := gang.Make(e.ledger, e.planner, ask)
		return plan, failure == nil
	}
	best, ok := try(len(ends))
	if !ok || len(ends) == 0 {
		return nil
	}
	low, high := 1, len(ends)
	for low < high {
		middle := (low + high) / 2
		if plan, ok := try(middle); ok {
			best, high = plan, middle
		} else {
			low = middle + 1
		}
	}
	r := &reservation{id: k.ID, at: ends[high-1].at, nodes: map[model.NodeID]bool{}}
	r.guess = slices.ContainsFunc(ends[:high], func(e runEnd) bool { return e.guess })
	for _, p := range best.Placements {
		r.nodes[p.Node] = true
	}
	return r
}
