package cluster

import (
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Roster is all gangs, and which of them run.
type Roster struct {
	gangs map[ID]*Tracked
	// running are those with a member placed, partial those of them that run with
	// fewer members than exist or than they need.
	running, partial map[ID]*Tracked
	// ranks counts running gangs that may be evicted.
	ranks map[Rank]int
	// members finds the gang and the role of a holder.
	members map[model.HolderID]membership
	// apart counts roles that keep others off their nodes, affine those with rules about
	// other holders.
	apart, affine int
}

func newRoster() *Roster {
	return &Roster{
		gangs: map[ID]*Tracked{}, running: map[ID]*Tracked{}, partial: map[ID]*Tracked{}, ranks: map[Rank]int{},
		members: map[model.HolderID]membership{},
	}
}

// membership is the gang and the role of a holder.
type membership struct {
	gang ID
	role int
}

// Gang is a gang, or nil.
func (r *Roster) Gang(id ID) *Tracked { return r.gangs[id] }

// GangOf is the gang of a holder, or nil.
func (r *Roster) GangOf(h model.HolderID) *Tracked { return r.gangs[r.members[h].gang] }

// GangIDOf is the gang of a holder; empty when it is in none.
func (r *Roster) GangIDOf(h model.HolderID) ID { return r.members[h].gang }

// RoleOf is the role of a holder; nil when it is in no gang.
func (r *Roster) RoleOf(h model.HolderID) *Role {
	if k := r.GangOf(h); k != nil {
		return &k.Roles[r.members[h].role]
	}
	return nil
}

// RoleNumber is the number of a member's role in its gang.
func (r *Roster) RoleNumber(h model.HolderID) int { return r.members[h].role }

// Gangs are all gangs, in no order.
func (r *Roster) Gangs() map[ID]*Tracked { return r.gangs }

// Running are the gangs of which a member has a place, in no order.
func (r *Roster) Running() map[ID]*Tracked { return r.running }

// Partial are the gangs that run with fewer members than exist or than they need, sorted
// by ID.
func (r *Roster) Partial() iter.Seq[*Tracked] {
	return func(yield func(*Tracked) bool) {
		for _, id := range slices.Sorted(maps.Keys(r.partial)) {
			if !yield(r.gangs[id]) {
				return
			}
		}
	}
}

// Ranks counts the running gangs that may be evicted, by queue and priority.
func (r *Roster) Ranks() map[Rank]int { return r.ranks }

// countRules counts roles with rules about other holders.
func (r *Roster) countRules(g *Gang, by int) {
	for _, role := range g.Roles {
		if role.KeepsApart {
			r.apart += by
		}
		if len(role.Request.Affinity) > 0 {
			r.affine += by
		}
	}
}

// index keeps the lists of gangs that run.
func (r *Roster) index(k *Tracked) {
	if k.rank != nil {
		if r.ranks[*k.rank]--; r.ranks[*k.rank] == 0 {
			delete(r.ranks, *k.rank)
		}
		k.rank = nil
	}
	delete(r.running, k.ID)
	delete(r.partial, k.ID)
	if len(k.placed) == 0 {
		return
	}
	r.running[k.ID] = k
	if len(k.placed) < k.exists || k.Missing() > 0 {
		r.partial[k.ID] = k
	}
	if k.Preemptible {
		k.rank = &Rank{k.QueueName(), k.Priority}
		r.ranks[*k.rank]++
	}
}
