package report

import (
	"container/heap"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Complaint is that an object is invalid, and what is wrong with it.
type Complaint struct {
	About           *v1.ObjectReference
	Reason, Message string
}

// Reporter reports a complaint. It must not block.
type Reporter func(Complaint)

// Notice is what a waiting pod is told.
type Notice struct {
	Pod *v1.Pod
	// Reason is one word: of the condition, and of the event where there is one.
	Reason, Text string
	// Event: an event says it as well.
	Event bool
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

// Desk remembers what was told. Not safe for concurrent use.
type Desk struct {
	// every is Every, unless it was set to something else.
	every time.Duration
	// complaints holds what was last reported about an object.
	complaints map[string]string
	// due are gangs whose reasons are to be looked for, soonest first; at is the soonest
	// time of each gang, and later questions about it are void.
	due  questions
	at   map[engine.ID]time.Time
	told map[engine.ID]*told
}

// NewDesk returns a desk at which nothing was told.
func NewDesk() *Desk {
	return &Desk{every: Every, complaints: map[string]string{}, at: map[engine.ID]time.Time{}, told: map[engine.ID]*told{}}
}

// SetEvery sets how often changed reasons are told at most, in place of Every.
func (d *Desk) SetEvery(every time.Duration) { d.every = every }

// New says whether a problem is news about an object; nil takes it back.
func (d *Desk) New(key string, problem error) bool {
	if problem == nil {
		delete(d.complaints, key)
		return false
	}
	if d.complaints[key] == problem.Error() {
		return false
	}
	d.complaints[key] = problem.Error()
	return true
}

// Touched takes note that something is new about a gang that may wait.
func (d *Desk) Touched(id engine.ID, now time.Time) {
	if d.told[id] == nil { // else it is asked about again in time
		d.AskSoon(id, now)
	}
}

// AskSoon makes sure that a gang's reason is looked for once it has waited a little.
func (d *Desk) AskSoon(id engine.ID, now time.Time) { d.Ask(id, now.Add(d.every/firstPart)) }

// Ask makes sure that a gang's reason is looked for at a time, or before.
func (d *Desk) Ask(id engine.ID, at time.Time) {
	if due, ok := d.at[id]; !ok || at.Before(due) {
		d.at[id] = at
		heap.Push(&d.due, question{at, id})
	}
	if len(d.due) > 2*len(d.at)+1000 { // void ones are most
		d.due = d.due[:0]
		for id, at := range d.at {
			d.due = append(d.due, question{at, id})
		}
		heap.Init(&d.due)
	}
}

// AskAgain makes sure that a gang's reason is looked for after a while.
func (d *Desk) AskAgain(id engine.ID, now time.Time) { d.Ask(id, now.Add(d.every)) }

// Due returns a gang whose reason is to be looked for now.
func (d *Desk) Due(now time.Time) (engine.ID, bool) {
	for len(d.due) > 0 && !d.due[0].at.After(now) {
		q := heap.Pop(&d.due).(question)
		if d.at[q.id].Equal(q.at) {
			delete(d.at, q.id)
			return q.id, true
		}
	}
	return "", false
}

// Next is when a reason is to be looked for; the zero time when none is.
func (d *Desk) Next() time.Time {
	if len(d.due) > 0 {
		return d.due[0].at
	}
	return time.Time{}
}

// Forget forgets what a gang was told: it is gone, or starts.
func (d *Desk) Forget(id engine.ID) {
	delete(d.told, id)
	delete(d.at, id)
}

// told is what a gang's owner was last told.
type told struct {
	text, kind string
	reason     explain.Reason
	// pods are those that were told.
	pods map[model.HolderID]bool
	// at is when the first of them was; pause is for how long that will do.
	at    time.Time
	pause time.Duration
}

// next is what is told now of a gang whose reason is given.
func (d *Desk) next(t *told, text, kind string, now time.Time) *told {
	if t == nil {
		return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: d.every}
	}
	pause := t.pause
	if t.kind != kind {
		pause = min(pause, kindTimes*d.every)
	}
	// Reasons are looked for every so often, a little late: not one round later.
	if t.text == text && t.kind == kind || now.Sub(t.at) < pause-d.every/2 {
		return t
	}
	return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: min(mostTimes*d.every, 2*t.pause)}
}

// Tell returns what the waiting pods of a gang have to be told: those that have not been
// told the latest, and those whose condition does not show it. kind is the one word for
// it: Kind, or names.ReasonWaitingForNodes. Nodes are counted and not named: a tenant
// who may read the pod may have no right to list nodes. The query API names them by rights.
func (d *Desk) Tell(id engine.ID, r *explain.Reason, kind string, waiting []*v1.Pod, shows func(*v1.Pod) (kind, text string), now time.Time) []Notice {
	shown := r.Anonymous()
	t := d.next(d.told[id], shown.String(), kind, now)
	if t != d.told[id] {
		t.reason = *r
		d.told[id] = t
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
func (d *Desk) Told(id engine.ID) *explain.Reason {
	if t := d.told[id]; t != nil {
		return &t.reason
	}
	return nil
}

// Kind is one word for what a gang waits for: the reason of its pods' condition.
// Autoscalers look at those that are Unschedulable, and at nothing else.
func Kind(r *explain.Reason) string {
	switch r.Code {
	case explain.NoQueue, explain.InnerQueue:
		return "InvalidQueue"
	case explain.QueueForbidden:
		return "QueueForbidden"
	case explain.QueueClosed:
		return "QueueClosed"
	case explain.BackOff:
		return "StartFailed"
	case explain.Rejected:
		if r.Need > 1 { // the other members would start alone on nodes that were added
			return "Rejected"
		}
	}
	switch r.Class() {
	case explain.ForCapacity:
		return v1.PodReasonUnschedulable
	case explain.ForQuota:
		return "WaitingForQuota"
	case explain.ForMembers:
		return "WaitingForMembers"
	case explain.ForTurn:
		return "WaitingForTurn"
	}
	return "Invalid"
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
