package engine

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Account is what is known of one gang, for people who ask about it. It shares no memory
// with the engine that changes later.
type Account struct {
	Gang Gang
	// Queue is where it waits or what it is charged to.
	Queue string
	// Exist is how many members there are, Missing how many it needs beyond those that have a
	// place.
	Exist, Missing int
	// Members are all of them, in the order of roles.
	Members []AccountMember
	// Milli is what all members ask for of devices, in thousandths.
	Milli int64
	// Lower is how many running gangs of its queue could be evicted for it if its priority
	// were above Above; 0: none, or it has what it needs.
	Lower int
	Above int32
	// RestUntil is when a failed start is tried again, in nanoseconds; 0: it does not rest.
	RestUntil int64
}

// AccountMember is a member, and where it is.
type AccountMember struct {
	Holder model.HolderID
	Role   int
	// Node is where it is or will be; empty while it waits.
	Node model.NodeID
	// Bound: the API has confirmed it. Leaving: it is being evicted or terminates.
	Bound, Leaving bool
}

// Account says what is known of a gang; false when it is not known. Cost: its members.
func (e *Engine) Account(id ID) (Account, bool) {
	k := e.gangs[id]
	if k == nil {
		return Account{}, false
	}
	a := Account{Gang: k.Gang, Queue: k.queue(), Exist: k.exists, Missing: k.missing()}
	a.Gang.Roles, a.Gang.Subgroups = slices.Clone(k.Roles), slices.Clone(k.Subgroups)
	sum := map[arbiter.Resource]int64{}
	for i := range k.Roles {
		r := &k.Roles[i]
		e.add(sum, r, len(r.Members))
		for _, h := range r.Members {
			s, placed := k.placed[h]
			_, leaving := e.leaving[h]
			m := AccountMember{Holder: h, Role: i, Leaving: leaving}
			if placed {
				m.Node = s.node
				_, claim, held := e.ledger.Claim(h)
				m.Bound = s.bound || held && !claim.Assumed
			}
			a.Members = append(a.Members, m)
		}
	}
	for r, n := range sum { // sums do not depend on the order
		if isGPU(r) {
			a.Milli += n
		}
	}
	if len(k.placed) < k.exists {
		a.Lower, a.Above = e.lower(k)
	}
	if k.rests(e.now) {
		a.RestUntil = k.restUntil
	}
	return a, true
}

// lower finds the lowest priority, not below a gang's own, of which gangs of its queue run
// that can be evicted, and how many.
func (e *Engine) lower(k *known) (count int, above int32) {
	if !e.options.Preempt || k.NeverPreempts {
		return 0, 0
	}
	for r, n := range e.ranks { // the lowest does not depend on the order
		if r.queue == k.queue() && r.priority >= k.Priority && (count == 0 || r.priority < above) {
			count, above = n, r.priority
		}
	}
	return count, above
}

// NextEnd is when the first running gang is expected to end, in nanoseconds; 0 when no end is
// known. Cost: the running gangs once.
func (e *Engine) NextEnd() int64 {
	at := never
	for _, k := range e.running { // the first does not depend on the order
		at = min(at, e.expected(k, e.now))
	}
	if at == never {
		return 0
	}
	return at
}

// Turn is a gang that waits, in the order in which gangs are offered a start.
type Turn struct {
	ID              ID
	Namespace, Name string
}

// Turns are the gangs that wait, in the order of their turns, not more than so many; those
// that wait for members or an administrator are not there. Cost: an offer for each, about a
// microsecond.
func (e *Engine) Turns(most int) (out []Turn) {
	for job := range e.tree.Order(e.now) {
		if k := e.gangs[ID(job.ID)]; k != nil && len(k.placed) == 0 {
			out = append(out, Turn{k.ID, k.Namespace, k.Name})
		}
		if len(out) >= most {
			break
		}
	}
	return out
}

// Knowledge is how a start is known.
type Knowledge uint8

// How a start is known.
const (
	// NotKnown: some runtime before it is not known, or it waits for something that is not
	// a matter of time.
	NotKnown Knowledge = iota
	// Now: it has a place.
	Now
	// Reserved: nodes are kept for it from a known time on.
	Reserved
	// Foreseen: by the expected ends of what runs and waits before it.
	Foreseen
	// NotEver: not as things are.
	NotEver
)

// Expectation is when a gang is expected to start.
type Expectation struct {
	Known Knowledge
	// At is in nanoseconds, for Reserved and Foreseen.
	At int64
	// Because says what the time hangs on.
	Because string
	// Nodes that it will use; may be empty.
	Nodes []model.NodeID
}

// Expect says when a gang that waits for a reason is expected to start, as far as that is
// known without looking into the future: a start that is NotKnown for want of a forecast
// has no Because.
func (e *Engine) Expect(id ID, r *explain.Reason) Expectation {
	k := e.gangs[id]
	switch {
	case k == nil:
		return Expectation{}
	case !r.Is() || len(k.placed) > 0 && k.missing() == 0:
		return Expectation{Known: Now, Because: "all members that it needs have a place"}
	}
	if x := e.reservationOf(id); x != nil {
		nodes := slices.Clone(x.nodes)
		switch {
		case x.until > 0:
			return Expectation{Known: Reserved, At: max(x.until, e.now), Because: "pods that make room for it terminate by then", Nodes: nodes}
		case x.at != never:
			return Expectation{Known: Reserved, At: max(x.at, e.now), Because: "what runs on the nodes that are kept for it is expected to end by then", Nodes: nodes}
		}
		return Expectation{Because: "nodes are kept for it, and it is not known how long the pods run that are there", Nodes: nodes}
	}
	switch {
	case r.Never:
		return Expectation{Known: NotEver, Because: "it asks for more than nodes or limits can give"}
	case r.Code == explain.Members:
		return Expectation{Because: "its members have to be created"}
	case r.Code == explain.BackOff && k.rests(e.now):
		return Expectation{Because: "its last start failed, and it is tried again at " + time.Unix(0, k.restUntil).UTC().Format("15:04:05 MST")}
	case r.Code.Permanent(), r.Code == explain.Nodes && r.Nodes.Nodes() > 0 && r.Nodes.Fit() == 0 && r.Nodes.Permanent():
		return Expectation{Known: NotEver, Because: "the end of other pods does not help"}
	}
	return Expectation{}
}
