package workload

import (
	"container/heap"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// wordsSay adds what words of other schedulers say about a gang as a whole: its priority,
// how long it waits before others are evicted for it, whether it may be evicted itself.
func (w *Gangs) wordsSay(g *group, pods []*Member, gang *engine.Gang, minOf map[string]int, now time.Time) {
	first := pods[0]
	if value, ok := w.owners.priorityNamed(first.PriorityClass); ok {
		gang.Priority = value
	}
	delay, ruled := first.PreemptionDelay, false
	if said := w.owners.said(first); said != nil && g.real {
		if said.Preemptible != nil {
			gang.Preemptible, ruled = *said.Preemptible && !w.reader.Protected(first.Pod), true
		}
		if value, ok := w.owners.priorityNamed(said.Priority); ok && first.Groups == dialect.KAIGroups {
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
			if task != "" {
				minOf[task] = max(1, minOf[task]) // that of a gang without pods is not known yet
			}
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
