package lifecycle

import (
	"slices"
	"time"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// reaction is what to do now, and about what.
type reaction struct {
	action  bus.Action
	targets []target // of a restart
	cause   string
	// disrupted: a restart because of evictions. Pods that fail at the same time do so
	// because their peers are gone, so that one eviction among the causes is enough.
	disrupted bool
}

// severity orders actions: when several are due at once, the one that leaves least
// of the job goes first, since the others have no object afterwards.
func severity(a bus.Action) int {
	return slices.Index([]bus.Action{
		bus.RestartPodAction, bus.RestartPartitionAction, bus.RestartTaskAction, bus.RestartJobAction,
		bus.CompleteJobAction, bus.AbortJobAction, bus.TerminateJobAction,
	}, a)
}

// react finds the policies' answer to what happened. Restarts of single pods,
// partitions and tasks that are due at the same time are one restart. wake is how
// long to wait for the next policy with a timeout; 0 for none.
func (m *machine) react() (best reaction, wake time.Duration) {
	top, disrupted := -1, false
	for _, t := range m.triggers() {
		disrupted = disrupted || t.leaving
		p := m.policyFor(&t)
		if p == nil {
			continue
		}
		if left := t.remaining(p, m.now); left > 0 {
			wake = sooner(wake, left)
			continue
		}
		rank := severity(p.Action)
		if rank < 0 || (p.Action == bus.RestartPodAction || p.Action == bus.RestartPartitionAction) && t.slot == nil {
			continue // ResumeJob, or a pod that is made anew anyway
		}
		r := reaction{action: p.Action, cause: t.cause, targets: m.targets(p.Action, &t)}
		disrupted = disrupted || t.disrupted
		switch small := severity(bus.RestartTaskAction); {
		case rank <= small && top >= 0 && top <= small:
			best.targets = append(best.targets, r.targets...)
			if rank > top {
				best.action, top = r.action, rank
			}
		case rank > top:
			best, top = r, rank
		}
	}
	best.disrupted = disrupted
	return best, wake
}

// policyFor is the first policy of the task, else of the job, that names the trigger.
func (m *machine) policyFor(t *trigger) *batch.LifecyclePolicy {
	lists := [][]batch.LifecyclePolicy{m.spec.Policies}
	if task := m.spec.Task(t.task); task != nil {
		lists = [][]batch.LifecyclePolicy{task.Policies, m.spec.Policies}
	}
	for _, list := range lists {
		for i := range list {
			p := &list[i]
			events := p.Events
			if p.Event != "" {
				events = append(slices.Clone(events), p.Event)
			}
			if t.named(events) || p.ExitCode != nil && slices.Contains(t.exitCodes, *p.ExitCode) {
				return p
			}
		}
	}
	return nil
}

// remaining is how long the policy still waits.
func (t *trigger) remaining(p *batch.LifecyclePolicy, now time.Time) time.Duration {
	if p.Timeout == nil || t.since.IsZero() {
		return 0
	}
	return t.since.Add(p.Timeout.Duration).Sub(now)
}

// targets is what a restart covers.
func (m *machine) targets(a bus.Action, t *trigger) []target {
	switch {
	case a == bus.RestartPodAction:
		return []target{{slot: t.slot}}
	case a == bus.RestartTaskAction && t.task != "":
		return []target{{task: t.task}}
	case a == bus.RestartPartitionAction:
		task := m.spec.Task(t.task)
		part := task.PartitionOf(t.slot.Index)
		if part < 0 {
			return []target{{slot: t.slot}} // not partitioned: each pod is its own
		}
		var out []target
		for i := range task.Partition.PartitionSize {
			out = append(out, target{slot: &Slot{Task: t.task, Index: part*task.Partition.PartitionSize + i}})
		}
		return out
	}
	return []target{{}} // a restart of a task that is about no task is one of the job
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
