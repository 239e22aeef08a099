package workload

import (
	"container/heap"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
)

// alarm is a gang or a pod to be looked at again at a time.
type alarm struct {
	at   time.Time
	gang engine.ID
	pod  *v1.Pod
}

// alarms is a heap of them, soonest first.
type alarms []alarm

// Len, Less, Swap, Push and Pop are for container/heap.
func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// Due looks again at what has to be because time has passed.
func (w *Gangs) Due(now time.Time) {
	for len(w.alarms) > 0 && !w.alarms[0].at.After(now) {
		switch a := heap.Pop(&w.alarms).(alarm); {
		case a.pod != nil:
			w.again(a.pod, now)
		default:
			if g := w.groups[a.gang]; g != nil {
				g.recalled, g.delayed = false, false
				w.touch(a.gang)
			}
		}
	}
}

// Next is when Due has something to do; the zero time when it has not.
func (w *Gangs) Next() time.Time {
	if len(w.alarms) > 0 {
		return w.alarms[0].at
	}
	return time.Time{}
}
