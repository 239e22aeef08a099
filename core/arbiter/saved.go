package arbiter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Saved is what a tree has learned and cannot read from anywhere else: balances and
// users' turns. A scheduler that starts anew restores it, so that queues that were owed
// something before the restart still are. It shares no memory with the tree.
type Saved struct {
	// At is the time up to which balances are settled, in nanoseconds of the caller's clock.
	At int64
	// Queues are those with something to remember, those with the largest balances first.
	Queues []SavedQueue
}

// SavedQueue is what is remembered of one queue.
type SavedQueue struct {
	Queue string
	// Parent is the queue above; a balance is one among siblings, and void elsewhere.
	Parent string
	// Owed is the balance, in amounts times milliseconds: negative of a queue that owes.
	Owed map[Resource]int64
	// Part and Held are with what the queue competes until the next Elapse.
	Part, Held map[Resource]int64
	// Turns are of users, in queues where they take turns.
	Turns SavedTurns
}

// SavedTurns says when users of a queue were last served.
type SavedTurns struct {
	// Clock counts turns. Forgotten is the turn from which unknown users start.
	Clock, Forgotten int64
	// Users are those served lately, the last one first.
	Users []SavedTurn
}

// SavedTurn is the turn at which a user was last served.
type SavedTurn struct {
	User   string
	Served int64
}

// MaxOwed bounds a balance, so that sums of balances and of what is added to them do not
// overflow.
const MaxOwed = 1 << 60

// Save returns what the tree has learned. Cost: queues times resources, and users.
func (t *Tree) Save() Saved {
	out := Saved{At: t.elapsed}
	weight := map[string]float64{}
	for _, n := range t.queues.nodes {
		if n.parent == nil {
			continue
		}
		q := SavedQueue{
			Queue: n.Name, Parent: n.parent.Name,
			Owed: t.queues.dict.amounts(n.owed).Map(), Part: t.queues.dict.amounts(n.competes.part).Map(), Held: t.queues.dict.amounts(n.competes.held).Map(),
		}
		if n.jobs != nil {
			q.Turns = n.jobs.turns.save()
		}
		if len(q.Owed)+len(q.Part)+len(q.Held)+len(q.Turns.Users) == 0 && q.Turns.Clock == 0 {
			continue
		}
		for r, owed := range n.owed {
			if t.queues.total[r] > 0 {
				weight[n.Name] = max(weight[n.Name], float64(max(owed, -owed))/float64(t.queues.total[r]))
			}
		}
		out.Queues = append(out.Queues, q)
	}
	slices.SortStableFunc(out.Queues, func(a, b SavedQueue) int {
		return cmp.Or(cmp.Compare(weight[b.Queue], weight[a.Queue]), cmp.Compare(a.Queue, b.Queue))
	})
	return out
}

// Restore replaces what the tree has learned. Queues and resources that the tree does not
// have are left out, and so is the balance of a queue that has another parent now. What
// passed since s.At counts as if each queue had gone on using what it used then, but not
// for longer than gap: of a longer time nothing is known. Call it when the tree has its
// queues and its total.
func (t *Tree) Restore(s Saved, now int64, gap time.Duration) {
	t.queues.refresh()
	t.Forget()
	t.elapsed = max(min(s.At, now), now-int64(gap))
	for _, q := range s.Queues {
		n := t.queues.byName[q.Queue]
		if n == nil || n.parent == nil {
			continue
		}
		if n.parent.Name == q.Parent {
			n.owed = t.queues.dict.vector(q.Owed, 0)
			n.competes.part, n.competes.held = t.queues.dict.vector(q.Part, 0), t.queues.dict.vector(q.Held, 0)
		}
		if n.jobs != nil {
			n.jobs.turns.restore(q.Turns)
		}
	}
	t.changed()
}

func (t *turns) save() SavedTurns {
	out := SavedTurns{Clock: t.clock, Forgotten: t.forgotten}
	for _, name := range slices.Sorted(maps.Keys(t.users)) {
		if u := t.users[name]; u.served > t.forgotten { // others are as if unknown
			out.Users = append(out.Users, SavedTurn{name, u.served})
		}
	}
	slices.SortStableFunc(out.Users, func(a, b SavedTurn) int { return cmp.Compare(b.Served, a.Served) })
	return out
}

func (t *turns) restore(s SavedTurns) {
	t.clock, t.forgotten = s.Clock, s.Forgotten
	for _, u := range t.users {
		u.served, u.pass = s.Forgotten, 0
	}
	for _, u := range s.Users {
		t.user(u.User).served = u.Served
	}
	t.trim()
}

// Validate names the field that makes no valid state.
func (s *Saved) Validate() error {
	seen := map[string]bool{}
	for i := range s.Queues {
		q := &s.Queues[i]
		field := fmt.Sprintf("queues[%d]", i)
		if q.Queue == "" || seen[q.Queue] {
			return fmt.Errorf("%s.queue: %q is empty or there twice", field, q.Queue)
		}
		seen[q.Queue] = true
		for _, r := range slices.Sorted(maps.Keys(q.Owed)) {
			if v := q.Owed[r]; v > MaxOwed || v < -MaxOwed {
				return fmt.Errorf("%s.owed[%s]: %d is beyond %d", field, r, v, int64(MaxOwed))
			}
		}
		if err := cmp.Or(checkAmounts(field+".part", q.Part), checkAmounts(field+".held", q.Held), q.Turns.validate(field+".turns")); err != nil {
			return err
		}
	}
	return nil
}

func (s *SavedTurns) validate(field string) error {
	if s.Clock < 0 || s.Clock > MaxOwed {
		return fmt.Errorf("%s.clock: %d, must be 0 to %d", field, s.Clock, int64(MaxOwed))
	}
	if s.Forgotten < 0 || s.Forgotten > s.Clock {
		return fmt.Errorf("%s.forgotten: %d, must be 0 to the clock, %d", field, s.Forgotten, s.Clock)
	}
	for i, u := range s.Users {
		if u.Served < 0 || u.Served > s.Clock {
			return fmt.Errorf("%s.users[%d].served: %d, must be 0 to the clock, %d", field, i, u.Served, s.Clock)
		}
	}
	return nil
}
