package state

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Wait is why a pod waits.
type Wait struct {
	Pod *v1.Pod
	// Reason is one word: events of one word are counted together, so each kind of
	// wait has its own.
	Reason, Text string
}

// Owners are told why their gang waits when it has waited for tellAfter, and again
// when the reason has changed: after tellAgain, and after twice as long each time, up
// to tellMost, or kindMost when it is of another kind. Numbers in reasons change with
// every pod that comes or goes, and telling costs a write per member. Finding a reason
// costs a plan, so a turn looks for few.
const (
	tellAfter   = 500 * time.Millisecond
	tellAgain   = 10 * time.Second
	tellMost    = 5 * time.Minute
	kindMost    = 30 * time.Second
	tellPerTurn = 32
)

// asking is when to look for the reasons of gangs, soonest first.
type asking struct {
	due []question
	// at is the soonest time of each gang; later questions about it are void.
	at map[engine.ID]time.Time
}

type question struct {
	at time.Time
	id engine.ID
}

// told is what a gang's owner was last told.
type told struct {
	text string
	kind string
	// pods are those who were told.
	pods map[model.HolderID]bool
	// at is when the first of them was; pause is for how long that will do.
	at    time.Time
	pause time.Duration
}

// next is what is told now of a gang whose reason is given.
func (t *told) next(text, kind string, now time.Time) *told {
	if t == nil {
		return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: tellAgain}
	}
	pause := t.pause
	if t.kind != kind {
		pause = min(pause, kindMost)
	}
	// Reasons are looked for every tellAgain, a little late: not one round later.
	if t.text == text && t.kind == kind || now.Sub(t.at) < pause-tellAgain/2 {
		return t
	}
	return &told{text: text, kind: kind, pods: map[model.HolderID]bool{}, at: now, pause: min(tellMost, 2*t.pause)}
}

// ask makes sure that a gang's reason is looked for at a time, or before.
func (a *asking) ask(id engine.ID, at time.Time) {
	if due, ok := a.at[id]; !ok || at.Before(due) {
		a.at[id] = at
		heap.Push(a, question{at, id})
	}
	if len(a.due) > 2*len(a.at)+1000 { // void ones are most: nobody asks where nobody leads
		a.due = a.due[:0]
		for id, at := range a.at {
			a.due = append(a.due, question{at, id})
		}
		heap.Init(a)
	}
}

// next returns a gang whose time has come.
func (a *asking) next(now time.Time) (engine.ID, bool) {
	for len(a.due) > 0 && !a.due[0].at.After(now) {
		q := heap.Pop(a).(question)
		if a.at[q.id].Equal(q.at) {
			delete(a.at, q.id)
			return q.id, true
		}
	}
	return "", false
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (a *asking) Len() int           { return len(a.due) }
func (a *asking) Less(i, j int) bool { return a.due[i].at.Before(a.due[j].at) }
func (a *asking) Swap(i, j int)      { a.due[i], a.due[j] = a.due[j], a.due[i] }
func (a *asking) Push(x any)         { a.due = append(a.due, x.(question)) }
func (a *asking) Pop() any {
	last := a.due[len(a.due)-1]
	a.due = a.due[:len(a.due)-1]
	return last
}

// tellWhy finds what is new about gangs that wait.
func (c *Cluster) tellWhy(t *Turn, now time.Time) {
	for range tellPerTurn {
		id, ok := c.gangs.asking.next(now)
		if !ok {
			break
		}
		g := c.gangs.groups[id]
		if g == nil || !c.isWaiting(g) {
			delete(c.gangs.told, id)
			continue
		}
		if now.Before(g.rests) { // what nodes say now is not the reason
			c.gangs.asking.ask(id, g.rests.Add(tellAfter))
			continue
		}
		before := len(t.Look)
		c.tellOwner(t, g, now)
		if len(t.Look) == before {
			c.gangs.asking.ask(id, now.Add(tellAgain))
		} // else when the answer comes
	}
	t.Next = dispatchEvery
	if len(c.gangs.asking.due) > 0 {
		t.Next = min(t.Next, max(10*time.Millisecond, c.gangs.asking.due[0].at.Sub(now)))
	}
}

// dispatchEvery is how long decisions are left alone when nothing happens: time
// itself changes things (ages, reservations whose time came).
const dispatchEvery = 5 * time.Second

// isWaiting says whether a member of a gang has no place.
func (c *Cluster) isWaiting(g *group) bool {
	for h, m := range g.pods {
		if m.pod.Spec.NodeName == "" && !c.standings.releases.has(h) {
			return true
		}
	}
	return false
}

// tellOwner tells a gang's owner why it waits, if that is new.
func (c *Cluster) tellOwner(t *Turn, g *group, now time.Time) {
	why := c.gangs.engine.Why(g.id)
	text := why.Text
	if text == "" {
		return
	}
	if why.Incomplete && g.unsure {
		g.unsure = false
		t.Look = append(t.Look, c.lookFor(g))
		return // told when that is known
	}
	if g.refusal != "" && !why.Quota && !why.Incomplete {
		text += "; when last tried: " + g.refusal
	}
	if p := c.prospect(g.id); p != "" {
		text += "; " + p
	}
	kind := "WaitingForCapacity"
	switch {
	case why.Failure == nil && strings.HasSuffix(why.Text, "waits for its turn"):
		kind = "WaitingForTurn" // a node more would not help
	case why.Quota:
		kind = "WaitingForQuota"
	case why.Incomplete:
		kind = "WaitingForMembers"
	}
	last := c.gangs.told[g.id].next(text, kind, now)
	c.gangs.told[g.id] = last
	for h, m := range g.pods {
		if m.pod.Spec.NodeName != "" || c.standings.releases.has(h) {
			continue
		}
		first, shown := !last.pods[h], c.isShown(m.pod)
		last.pods[h] = true
		switch capacity := last.kind == "WaitingForCapacity"; {
		case capacity && (first || !shown):
			t.Conditions = append(t.Conditions, Wait{m.pod, v1.PodReasonUnschedulable, last.text})
		case !capacity && shown:
			t.Conditions = append(t.Conditions, Wait{m.pod, last.kind, last.text})
		}
		if first && last.kind != "WaitingForCapacity" {
			t.News = append(t.News, Wait{m.pod, last.kind, last.text})
		}
	}
}

// isShown says whether a pod's condition tells autoscalers that it is unschedulable:
// they look at nothing else.
func (c *Cluster) isShown(pod *v1.Pod) bool {
	now, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && slices.ContainsFunc(now.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}

// lookFor says where a gang's pods are.
func (c *Cluster) lookFor(g *group) Look {
	l := Look{Gang: g.id}
	for _, m := range g.pods { // in all the same
		l.Namespace = m.pod.Namespace
		if key, value := dialect.SharedLabel(m.pod); key != "" {
			l.Labels = labels.Set{key: value}
		}
		break
	}
	return l
}

// Succeeded tells which pods that were looked for have succeeded; not ok when nobody
// could tell.
func (c *Cluster) Succeeded(l Look, pods []v1.Pod, ok bool) {
	done := map[model.HolderID]string{}
	for i := range pods {
		p := &pods[i]
		m, err := dialect.MembershipOf(p)
		if err == nil && engine.ID(m.Key) == l.Gang && p.Status.Phase == v1.PodSucceeded {
			done[model.HolderID(p.UID)] = m.Task
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gangs.groups[l.Gang]; g != nil {
		g.unsure = !ok
		if ok {
			g.done = done
		}
		c.gangs.asking.ask(l.Gang, time.Now())
		c.touch(l.Gang)
		c.kick()
	}
}
