package answer

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/model"
)

// Account is what is known of one gang, for people who ask about it. It shares no memory
// with the engine that changes later.
type Account struct {
	Gang cluster.Gang
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
func (a Gangs) Account(id cluster.ID) (Account, bool) {
	k := a.cluster.Gang(id)
	if k == nil {
		return Account{}, false
	}
	out := Account{Gang: k.Gang, Queue: k.QueueName(), Exist: k.Exists(), Missing: k.Missing()}
	out.Gang.Roles, out.Gang.Subgroups = slices.Clone(k.Roles), slices.Clone(k.Subgroups)
	sum := map[arbiter.Resource]int64{}
	for i := range k.Roles {
		r := &k.Roles[i]
		a.cluster.AddTo(sum, r, len(r.Members))
		for _, h := range r.Members {
			s, placed := k.PlaceOf(h)
			m := AccountMember{Holder: h, Role: i, Leaving: a.preemptor.MemberLeaves(h)}
			if placed {
				m.Node = s.Node
				_, claim, held := a.cluster.Ledger().Claim(h)
				m.Bound = s.Bound || held && !claim.Assumed
			}
			out.Members = append(out.Members, m)
		}
	}
	out.Milli = gpus(sum)
	if k.Placed() < k.Exists() {
		out.Lower, out.Above = a.preemptor.Rule().Lower(k)
	}
	if k.Memo.Rests(a.memo.Now()) {
		out.RestUntil = k.Memo.RestUntil()
	}
	return out, true
}

// gpus adds up the devices of all vendors.
func gpus(amounts map[arbiter.Resource]int64) (milli int64) {
	for r, n := range amounts { // sums do not depend on the order
		if cluster.IsGPU(r) {
			milli += n
		}
	}
	return milli
}

// Phase is how far a gang has come.
type Phase uint8

// Phases.
const (
	// Waiting: no member has a place.
	Waiting Phase = iota
	// Partial: it runs, or could, with members that wait.
	Partial
	// Starting: all members have a place, and not all are bound.
	Starting
	// Running: all members are bound.
	Running
)

// GangState is a gang in numbers. Its Gang shares its slices with the engine, which never
// changes them.
type GangState struct {
	cluster.Gang
	// Queue is where it is charged, named also where the gang names none.
	Queue string
	Phase Phase
	// Exist, Placed and Bound count members.
	Exist, Placed, Bound int
	// Milli is what all members that exist ask for, of GPUs; of those with a place what they
	// hold.
	Milli int64
	// Reserved are nodes that are kept for it, At from when on; 0: not known.
	Reserved []model.NodeID
	At       int64
	// Started is when the first member got its place; 0 for one that waits.
	Started int64
}

// GangState tells about a gang. Cost: its members.
func (a Gangs) GangState(id cluster.ID) (GangState, bool) {
	k := a.cluster.Gang(id)
	if k == nil {
		return GangState{}, false
	}
	s := GangState{Gang: k.Gang, Queue: k.QueueName(), Exist: k.Exists(), Placed: k.Placed()}
	for _, p := range k.Places() { // sums do not depend on the order
		if p.Bound {
			s.Bound++
		}
	}
	sum := map[arbiter.Resource]int64{}
	for i := range k.Roles {
		a.cluster.AddTo(sum, &k.Roles[i], len(k.Roles[i].Members)-k.Have(i))
	}
	for _, a := range k.Used() {
		sum[a.Resource] += a.Value
	}
	s.Milli = gpus(sum)
	switch {
	case s.Placed == 0:
	case s.Placed < s.Exist || k.Missing() > 0:
		s.Phase = Partial
	case s.Bound < s.Placed:
		s.Phase = Starting
	default:
		s.Phase = Running
	}
	if s.Placed > 0 {
		s.Started = k.Started()
	}
	s.At, s.Reserved, _ = a.Reservation(id)
	return s, true
}
