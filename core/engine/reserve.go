package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// reservation is nodes kept for a gang from a time on.
type reservation struct {
	id    ID
	at    int64          // never when it is not known
	nodes []model.NodeID // sorted
	// until, when not 0, says that the nodes are being freed for the gang: no other
	// gang may use them before then.
	until int64
	// short: a victim stays after all, and others must be found.
	short bool
	// doubtful: nodes have changed since, so it is found anew before others are offered
	// anything.
	doubtful bool
	// tried is Engine.freed plus one when the gang was last tried on them.
	tried uint64
	// forecast is what queues will use by then, made at Engine.steps and
	// Engine.generation.
	forecast   *arbiter.Forecast
	forecastAt [2]uint64
}

func (r *reservation) has(id model.NodeID) bool {
	_, found := slices.BinarySearch(r.nodes, id)
	return found
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// end is when a gang's members would end that start now. Those that join a running
// gang end with it.
func (e *Engine) end(k *known, now int64) int64 {
	switch {
	case k.Runtime <= 0:
		return never
	case len(k.placed) > 0:
		return e.expected(k, now)
	}
	return later(now, int64(k.Runtime))
}

// expected is when a running gang ends. One that is over its time is given an eighth
// of what it took, again and again: its owner's guess was not far off, as a rule.
func (e *Engine) expected(k *known, now int64) int64 {
	if k.Runtime <= 0 {
		return never
	}
	at := later(k.started, int64(k.Runtime))
	if at <= now {
		at = later(now, max(int64(time.Second), (now-k.started)/8))
	}
	return at
}

func later(at, by int64) int64 {
	if by > never-max(at, 0) {
		return never
	}
	return at + by
}

// closing are the reservations of others whose nodes a gang must leave alone, because
// they need them before it would end.
func (e *Engine) closing(k *known, now int64) []*reservation {
	var out []*reservation
	end := e.end(k, now)
	for _, r := range e.reserved {
		if r.id != k.ID && (r.until > 0 || r.at == never || end > r.at) {
			out = append(out, r)
		}
	}
	return out
}

// takesReservedQuota says whether a gang that starts now, with its minimum, would leave a reserved
// one without quota when its time comes: of a queue, of one above both, or of a
// namespace.
func (e *Engine) takesReservedQuota(k *known, end int64) bool {
	if len(e.reserved) == 0 {
		return false
	}
	job, _ := e.tree.Job(arbiter.JobID(k.ID))
	return e.takesReservedQuotaWith(k, job.Demand, end)
}

func (e *Engine) takesReservedQuotaWith(k *known, amounts arbiter.Amounts, end int64) bool {
	for _, r := range e.reserved {
		if r.id == k.ID || r.until == 0 && r.at != never && end <= r.at || len(e.gangs[r.id].placed) > 0 {
			continue
		}
		if now := [2]uint64{e.steps, e.generation}; r.forecastAt != now {
			r.forecast, r.forecastAt = e.forecast(r, nil), now
		}
		forecast := r.forecast
		if e.reservationOf(k.ID) != nil {
			forecast = e.forecast(r, k) // it must not count twice
		}
		if forecast.Crowds(arbiter.JobID(r.id), arbiter.JobID(k.ID), amounts) {
			return true
		}
	}
	return false
}

// forecast is what will be in use at the time of a reservation: some have ended by
// then, and other reserved ones, but for one, have started. Where the
// time is not known: those have ended that are on its nodes.
func (e *Engine) forecast(r *reservation, but *known) *arbiter.Forecast {
	var ended, started []arbiter.JobID
	for id, o := range e.running { // the order does not matter
		ends := r.until == 0 && r.at != never && e.expected(o, e.now) <= r.at
		for _, s := range o.placed {
			ends = ends || r.at == never && r.has(s.node)
		}
		if ends {
			ended = append(ended, arbiter.JobID(id))
		}
	}
	for _, o := range e.reserved {
		if k := e.gangs[o.id]; o != r && k != but && o.at <= r.at && e.end(k, o.at) > r.at {
			started = append(started, arbiter.JobID(k.ID))
		}
	}
	return e.tree.Forecast(ended, started)
}

// sparing lets a gang have no more members than leave reserved ones their quota. Who
// gets back what it lost is not held up.
func (e *Engine) limitToQuota(k *known, ask *gang.Ask, now int64) {
	if len(e.reserved) == 0 || ask.Allow == nil || len(k.placed) > 0 && k.missing() > 0 {
		return
	}
	allow, end := ask.Allow, e.end(k, now)
	ask.Allow = func(counts []int) bool {
		sum := map[arbiter.Resource]int64{}
		for i, n := range counts {
			e.add(sum, &k.Roles[i], n)
		}
		return allow(counts) && !e.takesReservedQuotaWith(k, arbiter.NewAmounts(sum), end)
	}
}

// Reservation says when a gang is expected to start and on which nodes, sorted;
// false when it has no reservation, a time of 0 when it is not known.
func (e *Engine) Reservation(id ID) (at int64, nodes []model.NodeID, ok bool) {
	if r := e.reservationOf(id); r != nil {
		if r.at != never {
			at = r.at
		}
		return at, slices.Clone(r.nodes), true
	}
	return 0, nil, false
}

// Freeing says whether others were told to go so that a gang can start.
func (e *Engine) Freeing(id ID) bool {
	r := e.reservationOf(id)
	return r != nil && r.until > 0
}

// expire drops what is kept in futile: for a time that came and went, on nodes that
// went, for a gang that may not use them.
func (e *Engine) expire(now int64) {
	e.settle(now)
	var late []*known
	for _, r := range e.reserved {
		if r.until == 0 && r.at < now {
			late = append(late, e.gangs[r.id])
		}
	}
	e.unreserve(func(r *reservation) bool {
		switch k := e.gangs[r.id]; {
		case r.until > 0 && r.until < now || r.until == 0 && r.at < now:
			return true
		case r.until == 0 && len(k.placed) == 0 && !e.mayCome(r):
			return true
		}
		return slices.ContainsFunc(r.nodes, func(id model.NodeID) bool {
			_, there := e.ledger.View(id)
			return !there
		})
	})
	// What should have ended did not: another time is found before another gang takes
	// what was kept so far.
	for _, k := range late {
		if e.mayCome(&reservation{id: k.ID}) {
			e.reserve(k, now)
		}
	}
	e.renew(now)
}

// renew finds reservations anew after nodes have changed, in the order in which they were
// made: gangs that came later must not slip in meanwhile, nor find an earlier one's nodes.
// What was promised stays as long as it holds, unless there is something sooner.
func (e *Engine) renew(now int64) {
	for _, r := range slices.Clone(e.reserved) {
		if !r.doubtful || e.reservationOf(r.id) != r {
			continue
		}
		r.doubtful, r.tried = false, 0
		k, holds := e.gangs[r.id], e.holds(r, now)
		e.unreserve(func(o *reservation) bool { return o == r })
		e.reserve(k, now)
		if found := e.reservationOf(k.ID); holds && (found == nil || found.at >= r.at) {
			e.unreserve(func(o *reservation) bool { return o == found })
			e.reserved = append(e.reserved, r)
			e.generation++
		}
	}
}

// holds says whether a gang still fits on the nodes that are kept for it, once those have
// ended that are expected to end by then.
func (e *Engine) holds(r *reservation, now int64) bool {
	k := e.gangs[r.id]
	tx := e.ledger.Begin()
	defer tx.Rollback()
	for _, o := range slices.Collect(e.runningOn(r.nodes)) {
		if o == k || r.at != never && e.expected(o, now) > r.at {
			continue
		}
		for h := range o.placed { // the order does not matter
			e.ledger.Drop(h)
		}
	}
	ask := k.demand()
	ask.Within = r.nodes
	e.constrain(k, ask, slices.DeleteFunc(slices.Clone(e.reserved), func(o *reservation) bool { return o == r }))
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure == nil
}

// mayCome says whether queues and quotas may let a gang start by the time of its
// reservation. Quota that is short now may be in use by those who were let past
// because they end before; of an unknown time that cannot be told.
func (e *Engine) mayCome(r *reservation) bool {
	w := e.tree.Why(arbiter.JobID(r.id))
	return capacity(w) || r.at != never && w.Code > arbiter.QueueClosed && e.tree.Ever(arbiter.JobID(r.id))
}

// capacity says that nothing but the end of others keeps a gang waiting, or nothing
// at all.
func capacity(w arbiter.Wait) bool { return w.Code == 0 || w.Code == arbiter.OverTotal }

// unreserve drops reservations.
func (e *Engine) unreserve(drop func(*reservation) bool) {
	before := len(e.reserved)
	if e.reserved = slices.DeleteFunc(e.reserved, drop); len(e.reserved) != before {
		e.generation++
		e.freed++
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

// reservations counts those that wait for others to end.
func (e *Engine) reservations() int {
	n := 0
	for _, r := range e.reserved {
		if r.until == 0 {
			n++
		}
	}
	return n
}

// keep reserves the nodes of a plan.
func (e *Engine) keep(r *reservation, plan *gang.Plan) {
	for _, p := range plan.Placements {
		r.nodes = append(r.nodes, p.Node)
	}
	slices.Sort(r.nodes)
	r.nodes = slices.Compact(r.nodes)
	e.reserved = append(e.reserved, r)
	e.generation++
}

// younger says whether a reservation is of a gang that came after another and waits
// for others to end.
func (e *Engine) younger(r *reservation, k *known) bool {
	o := e.gangs[r.id]
	return r.until == 0 && cmp.Or(cmp.Compare(o.Submitted, k.Submitted), cmp.Compare(o.ID, k.ID)) > 0
}

// patient says whether a gang can still wait: it has not waited for its patience, and
// its queue is not owed as much as it would use in a thirty-second part of that.
func (e *Engine) patient(k *known, now int64) bool {
	return now < later(k.Submitted, int64(e.options.Patience)) && !e.tree.Overdue(arbiter.JobID(k.ID), e.options.Patience/32)
}

// due says whether nodes may be kept for a gang: not while they would be kept from
// those whose turn it is.
func (e *Engine) due(k *known, now int64) bool {
	return e.tree.Due(arbiter.JobID(k.ID), now >= later(k.Submitted, int64(e.options.Patience)))
}

// idle says whether no pod is on the nodes of a reservation.
func (e *Engine) idle(r *reservation) bool {
	for _, id := range r.nodes {
		for range e.ledger.EachClaim(id) {
			return false
		}
	}
	return true
}

// reserve finds the earliest start of a gang that does not fit now, from the known
// ends of what runs, and keeps its nodes. Gangs whose end is not known are assumed
// to run longest, the oldest of them to end first; for such an end nodes are kept
// only once the gang's patience is over.
func (e *Engine) reserve(k *known, now int64) (more bool) {
	// Who needs a single device gets none: whatever ends makes room for it, and in its
	// turn it is offered that.
	if e.reservationOf(k.ID) != nil || !e.worthTrying(k, reserving) || !e.worthTrying(k, keeping) || k.single() {
		return false
	}
	patient := e.patient(k, now)
	if patient && !e.worthTrying(k, reservingEarly) || !e.worthTrying(k, reservingAny) || e.reservations() >= e.options.Reservations ||
		!e.due(k, now) || e.takesReservedQuota(k, never) {
		return false
	}
	g := e.reservingGround(k, now)
	plan, ends, at, ok := e.earliest(k, e.reserved, g.nodes, now)
	displaces := false
	if !ok && !patient && e.never(k) == nil {
		// Who came later makes room for it, and finds another time.
		older := slices.DeleteFunc(slices.Clone(e.reserved), func(r *reservation) bool { return e.younger(r, k) })
		if plan, ends, at, ok = e.earliest(k, older, g.nodes, now); ok {
			e.unreserve(func(r *reservation) bool { return e.younger(r, k) })
			displaces = true
		}
	}
	if !ok && g.more { // it may fit on other nodes
		k.reserveGround++
		return true
	}
	k.reserveGround = 0
	switch {
	case !ok:
		e.failed(k, reservingAny)
		e.failed(k, reservingEarly)
		if !patient {
			e.failed(k, reserving)
		}
		return false // not even an empty cluster would do, or others have reserved it
	case ends == 0 && !displaces:
		return false // it fits now, and waits for its turn only
	case patient && (at == never || ends == 1 && k.missing() == 1):
		// The time is not known, or a single member needs only the next one to end and takes
		// its turn like others.
		e.failed(k, reservingEarly)
		return false
	}
	k.succeeded(reserving)
	k.succeeded(keeping)
	e.keep(&reservation{id: k.ID, at: at}, &plan)
	if k.promised == 0 && at != never {
		k.promised = at
	}
	return false
}

// earliest finds when a gang fits first, by places and by queues, by the expected ends
// of what runs, outside of nodes that others have reserved, which are in use by then:
// the plan, how many must have ended, and the time of the last of them; on some nodes
// only when given.
func (e *Engine) earliest(k *known, closed []*reservation, only []model.NodeID, now int64) (best gang.Plan, count int, at int64, ok bool) {
	type ending struct {
		k  *known
		at int64
	}
	var ends []ending
	for o := range e.runningOn(only) { // sorted below
		if o != k {
			ends = append(ends, ending{o, e.expected(o, now)})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.k.started, b.k.started), cmp.Compare(a.k.ID, b.k.ID))
	})
	var coming []arbiter.JobID
	for _, r := range closed {
		coming = append(coming, arbiter.JobID(r.id))
	}
	// The first so many ends let it fit: more ends never hurt, so search by halves.
	try := func(count int) (gang.Plan, bool) {
		tx := e.ledger.Begin()
		defer tx.Rollback()
		gone := make([]arbiter.JobID, count)
		for i, end := range ends[:count] {
			gone[i] = arbiter.JobID(end.k.ID)
			for h := range end.k.placed { // the order does not matter
				e.ledger.Drop(h)
			}
		}
		if len(k.placed) == 0 && !e.tree.Forecast(gone, coming).Lets(arbiter.JobID(k.ID)) {
			return gang.Plan{}, false
		}
		ask := k.demand()
		ask.Within = only
		e.constrain(k, ask, closed)
		plan, failure := gang.Make(e.ledger, e.planner, ask)
		return plan, failure == nil
	}
	if best, ok = try(len(ends)); !ok {
		return best, 0, 0, false
	}
	low, high := 0, len(ends)
	for low < high {
		middle := (low + high) / 2
		if plan, ok := try(middle); ok {
			best, high = plan, middle
		} else {
			low = middle + 1
		}
	}
	if high == 0 {
		return best, 0, now, true
	}
	return best, high, ends[high-1].at, true
}
