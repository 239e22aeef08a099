package report

import (
	"container/heap"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Notice is what a waiting pod is told.
type Notice struct {
	Pod *v1.Pod
	// Reason is one word: of the condition, and of the event where there is one.
	Reason, Text string
	Event        bool // an event says it as well
}

// Every is how long owners of waiting gangs are left alone when the reason has changed.
// They are told first when the gang has waited for a twentieth of it, and again after
// Every, and after twice as long each time, up to 30 times Every, or 3 times when the
// reason is of another kind. Numbers in reasons change with every pod that comes or goes,
// and telling costs a write per member.
const Every = 10 * time.Second

const (
	firstPart = 20
	mostTimes = 30
	kindTimes = 3
)

// Notices remembers what the owners of waiting gangs were told, and says when to look for a
// reason again. Not safe for concurrent use.
type Notices struct {
	Every time.Duration // how often changed reasons are told at most; the constant by default
	// due are gangs whose reasons are to be looked for; of each only the one at its at
	// counts.
	due  questions
	at   map[engine.ID]time.Time
	told map[engine.ID]*told
}

// NewNotices returns a Notices of which nothing was told.
func NewNotices() *Notices {
	return &Notices{Every: Every, at: map[engine.ID]time.Time{}, told: map[engine.ID]*told{}}
}

// Touched notes that the description of a gang that may wait has changed.
func (n *Notices) Touched(id engine.ID, now time.Time) {
	if n.told[id] == nil { // else it is asked about again in time
		n.AskSoon(id, now)
	}
}

// AskSoon makes sure that a gang's reason is looked for once it has waited a little.
func (n *Notices) AskSoon(id engine.ID, now time.Time) { n.Ask(id, now.Add(n.Every/firstPart)) }

// Ask makes sure that a gang's reason is looked for at a time, or before.
func (n *Notices) Ask(id engine.ID, at time.Time) {
	if due, ok := n.at[id]; !ok || at.Before(due) {
		n.at[id] = at
		heap.Push(&n.due, question{at, id})
	}
	if len(n.due) > 2*len(n.at)+1000 { // void ones are most
		n.due = n.due[:0]
		for id, at := range n.at {
			n.due = append(n.due, question{at, id})
		}
		heap.Init(&n.due)
	}
}

// AskAgain makes sure that a gang's reason is looked for after a while.
func (n *Notices) AskAgain(id engine.ID, now time.Time) { n.Ask(id, now.Add(n.Every)) }

// Due returns a gang whose reason is to be looked for now.
func (n *Notices) Due(now time.Time) (engine.ID, bool) {
	for len(n.due) > 0 && !n.due[0].at.After(now) {
		q := heap.Pop(&n.due).(question)
		if n.at[q.id].Equal(q.at) {
			delete(n.at, q.id)
			return q.id, true
		}
	}
	return "", false
}

// Next is when a reason is to be looked for; the zero time when none is.
func (n *Notices) Next() time.Time {
	if len(n.due) > 0 {
		return n.due[0].at
	}
	return time.Time{}
}

// Forget forgets what a gang was told: it is gone, or starts.
func (n *Notices) Forget(id engine.ID) {
	delete(n.told, id)
	delete(n.at, id)
}

// told is what a gang's owner was last told.
type told struct {
	text, kind string
	reason     explain.Reason
	pods       map[model.HolderID]bool // those that were told
	// at is when the first of them was; pause is for how long that will do.
	at    time.Time
	pause time.Duration
}

// next is what is told now of a gang whose reason is given.
func (n *Notices) next(t *told, text, kind string, now time.Time) *told {
	if t == nil {
		return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: n.Every}
	}
	pause := t.pause
	if t.kind != kind {
		pause = min(pause, kindTimes*n.Every)
	}
	// Reasons are looked for every so often, a little late: not one round later.
	if t.text == text && t.kind == kind || now.Sub(t.at) < pause-n.Every/2 {
		return t
	}
	return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: min(mostTimes*n.Every, 2*t.pause)}
}

// Tell returns what the waiting pods of a gang have to be told: those that have not been
// told the latest, and those whose condition does not show it. kind is the one word for
// it: Reason.Condition, or names.ReasonWaitingForNodes. Nodes are counted and not named: a tenant
// who may read the pod may have no right to list nodes. The query API names them by rights.
func (n *Notices) Tell(id engine.ID, r *explain.Reason, kind string, waiting []*v1.Pod, shows func(*v1.Pod) (kind, text string), now time.Time) []Notice {
	shown := r.Anonymous()
	t := n.next(n.told[id], shown.String(), kind, now)
	if t != n.told[id] {
		t.reason = *r
		n.told[id] = t
	}
	var out []Notice
	for _, p := range waiting {
		h := model.HolderID(p.UID)
		shownKind, shownText := shows(p)
		if first := !t.pods[h]; first || shownKind != t.kind || shownText != t.text {
			out = append(out, Notice{Pod: p, Reason: t.kind, Text: t.text, Event: first})
		}
		t.pods[h] = true
	}
	return out
}

// Told is the reason that a gang's owner was last told; nil when they were told none.
func (n *Notices) Told(id engine.ID) *explain.Reason {
	if t := n.told[id]; t != nil {
		return &t.reason
	}
	return nil
}

// question is a gang whose reason is to be looked for at a time.
type question struct {
	at time.Time
	id engine.ID
}

// questions is a heap of them.
type questions []question

// Len, Less, Swap, Push and Pop are for container/heap.
func (q questions) Len() int           { return len(q) }
func (q questions) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q questions) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *questions) Push(x any)        { *q = append(*q, x.(question)) }
func (q *questions) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
