package workload

import (
	"container/heap"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// adopt adds what a pod's controller says in the words of other schedulers; empty, or what
// is wrong with them.
func (w *Gangs) adopt(pod *v1.Pod, m *dialect.Membership) (problem string) {
	owner := m.Object
	if m.PodGroup != "" || owner.Key == "" {
		owner = m.Also
	}
	object := w.objects[owner.Resource].Get(owner.Key)
	if object == nil {
		return ""
	}
	if err := m.Adopt(object, pod.Spec.SchedulerName, w.reader.Levels()); err != nil {
		return fmt.Sprintf("%s %s: %v", object.GetKind(), owner.Key, err)
	}
	return ""
}

// wordsSay adds what words of other schedulers say about a gang as a whole: its priority,
// how long it waits before others are evicted for it, whether it may be evicted itself.
func (w *Gangs) wordsSay(g *group, pods []*Member, gang *engine.Gang, minOf map[string]int, now time.Time) {
	first := pods[0]
	if value, ok := w.priorityNamed(first.PriorityClass); ok {
		gang.Priority = value
	}
	delay, ruled := first.PreemptionDelay, false
	if said := w.said(first); said != nil && g.real {
		if said.Preemptible != nil {
			gang.Preemptible, ruled = *said.Preemptible && !w.reader.Protected(first.Pod), true
		}
		if value, ok := w.priorityNamed(said.Priority); ok && first.Groups == dialect.KAIGroups {
			gang.Priority = value
		}
		delay = max(delay, said.PreemptionDelay)
	}
	for _, m := range pods {
		if !ruled && m.PreemptBelow > 0 && gang.Priority >= m.PreemptBelow {
			gang.Preemptible = false
		}
		if m.TaskMin > 0 {
			minOf[m.Task] = m.TaskMin
		}
		for task := range strings.SplitSeq(m.Tasks, ",") {
			if task == "" {
				continue
			}
			minOf[task] = max(1, minOf[task]) // that of a gang without pods is not known yet
		}
	}
	if until := time.Unix(0, gang.Submitted).Add(delay); delay > 0 && until.After(now) {
		gang.NeverPreempts = true
		if !g.delayed {
			g.delayed = true
			heap.Push(&w.alarms, alarm{at: until.Add(time.Millisecond), gang: g.id})
		}
	}
}

// kaiPriorities are the PriorityClasses that KAI installs. They count where the cluster has
// no object of the name, so that its manifests mean the same without KAI.
var kaiPriorities = map[string]int32{"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}

// priorityNamed is the value of a PriorityClass that a label names.
func (w *Gangs) priorityNamed(class string) (int32, bool) {
	if value, ok := w.classPriority(class); ok {
		return value, true
	}
	value, ok := kaiPriorities[class]
	return value, ok
}
