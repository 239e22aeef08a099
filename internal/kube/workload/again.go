package workload

import (
	"container/heap"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/engine"
)

// OwnerChanged looks again at the pods of an object of dialect.Owners that changed: it says
// how many of them belong together.
func (w *Gangs) OwnerChanged(kind schema.GroupVersionResource, key string, now time.Time) {
	for _, p := range w.owners.changed(kind, key) { // each on its own
		w.again(p, now)
	}
}

// LevelsChanged looks again at all pods: what they ask for names levels of domains.
func (w *Gangs) LevelsChanged(now time.Time) {
	for _, m := range maps.Clone(w.members) {
		w.again(m.Pod, now)
	}
}

// PrioritiesChanged looks again at gangs: PodGroups may name a PriorityClass that is new
// or gone.
func (w *Gangs) PrioritiesChanged() {
	for id, g := range w.groups {
		if g.real {
			w.touch(id)
		}
	}
}

// again looks at the latest of a pod.
func (w *Gangs) again(pod *v1.Pod, now time.Time) {
	latest, err := w.pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && latest.UID == pod.UID { // else its deletion is heard of separately
		w.Set(latest, now)
	}
}

// lookAgain looks at a pod once more when its owner must have been seen.
func (w *Gangs) lookAgain(pod *v1.Pod, now time.Time) {
	if at := pod.CreationTimestamp.Add(w.owners.patience + time.Millisecond); at.After(now) {
		heap.Push(&w.alarms, alarm{at: at, pod: pod})
	}
}

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
