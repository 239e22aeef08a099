package arbiter

import (
	"cmp"
	"slices"
)

// idleUsers is how many users without waiting jobs a queue remembers at least. Their
// turns matter only until every other user of the queue was served once, and a queue
// with more users than this at a time is not expected.
const idleUsers = 1024

// turns says when each user of a queue was last served, in queues where users take
// turns (RoundRobin). They are remembered when they have no waiting jobs left, so that
// removing and submitting jobs again puts no user first.
//
// Invariant: len(users) <= users with waiting jobs + 2*idleUsers.
type turns struct {
	users map[string]*user
	// clock counts turns.
	clock int64
	// idle counts the users without waiting jobs.
	idle int
	// forgotten is the latest turn of all users that were forgotten. A user that is not
	// known starts with it: one that was forgotten and comes back is never ahead of
	// where it would have been.
	forgotten int64
}

// user is a user whose jobs take turns with those of others.
type user struct {
	// buckets is how many of the queue's buckets have jobs of this user.
	buckets int
	served  int64
	// visited is the turn inside pass number pass, where that is later.
	visited int64
	pass    uint64
}

func newTurns() *turns { return &turns{users: map[string]*user{}} }

// turn is the user's last turn, as seen by a pass under way.
func (u *user) turn(pass uint64) int64 {
	if u.pass == pass {
		return max(u.served, u.visited)
	}
	return u.served
}

// user returns a user, made if it is not there.
func (t *turns) user(name string) *user {
	u := t.users[name]
	if u == nil {
		u = &user{served: t.forgotten}
		t.users[name] = u
		t.idle++
	}
	return u
}

// join adds a bucket of a user's jobs.
func (t *turns) join(name string) *user {
	u := t.user(name)
	if u.buckets == 0 {
		t.idle--
	}
	u.buckets++
	return u
}

// leave removes a bucket of a user's jobs.
func (t *turns) leave(u *user) {
	if u.buckets--; u.buckets == 0 {
		t.idle++
		t.trim()
	}
}

// serve says that a user had a turn.
func (t *turns) serve(name string) {
	t.clock++
	t.user(name).served = t.clock
	t.trim()
}

// visit says that a job of the user was offered in a pass.
func (t *turns) visit(u *user, pass uint64) {
	t.clock++
	u.visited, u.pass = t.clock, pass
}

// trim forgets the idle users that were served longest ago. Cost: nothing most of the
// time; n log n once in idleUsers users.
func (t *turns) trim() {
	if t.idle <= 2*idleUsers {
		return
	}
	var idle []string
	for name, u := range t.users {
		if u.buckets == 0 {
			idle = append(idle, name)
		}
	}
	slices.SortFunc(idle, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.users[a].served, t.users[b].served), cmp.Compare(a, b))
	})
	for _, name := range idle[:len(idle)-idleUsers] {
		t.forgotten = max(t.forgotten, t.users[name].served)
		delete(t.users, name)
	}
	t.idle = idleUsers
}

// withoutBuckets returns the turns for a queue whose buckets are made anew.
func (t *turns) withoutBuckets() *turns {
	for _, u := range t.users {
		u.buckets = 0
	}
	t.idle = len(t.users)
	return t
}
