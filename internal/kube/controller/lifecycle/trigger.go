package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// trigger is something that happened, for a policy to react to. It holds as long as
// it is so: nothing is lost while the controller is down.
type trigger struct {
	event     bus.Event
	task      string // "" when it is about the whole job
	slot      *Slot  // nil when it is about no single pod, or none that is known
	exitCodes []int32
	since     time.Time // zero: long ago
	cause     string    // for people
	// disrupted: the pod was evicted or deleted by others (preemption, reclaim, a drained
	// or lost node), or what failed are pods that were. The job is not to blame.
	disrupted bool
	// leaving: it is disrupted, and the pod is gone or about to go. That passes, so it
	// explains what else fails now, whether or not a policy names it.
	leaving bool
}

// triggers lists what happened, in the order of tasks and indexes.
func (m *machine) triggers() []trigger {
	var out []trigger
	for i := range m.spec.Tasks {
		t := &m.spec.Tasks[i]
		pods := m.current[t.Name]
		for j := range pods {
			out = append(out, podTriggers(&pods[j])...)
		}
		if n := lost(&m.before, m.spec, t.Name, len(pods)); n > 0 {
			out = append(out, trigger{event: bus.PodEvictedEvent, task: t.Name, disrupted: true, leaving: true, cause: fmt.Sprintf("%d pods of task %s disappeared", n, t.Name)})
		}
		out = append(out, taskTriggers(t, pods)...)
	}
	if m.seen.Unknown {
		out = append(out, trigger{event: bus.JobUnknownEvent, since: m.seen.UnknownSince, cause: "some pods run and others cannot be scheduled"})
	}
	return out
}

func podTriggers(p *Pod) []trigger {
	at := trigger{task: p.Task, slot: &p.Slot, since: p.Since, disrupted: p.Leaving || p.Evicted, leaving: p.Leaving}
	with := func(event bus.Event, cause string) trigger {
		t := at
		t.event, t.cause = event, fmt.Sprintf("pod %s %s", p.Name, cause)
		return t
	}
	var out []trigger
	switch {
	case p.Phase == v1.PodSucceeded:
	case p.Leaving || p.Evicted:
		out = append(out, with(bus.PodEvictedEvent, "was evicted"))
	}
	switch {
	case p.Leaving:
	case p.Phase == v1.PodFailed:
		failed := with(bus.PodFailedEvent, "failed"+exits(p.ExitCodes))
		failed.exitCodes = p.ExitCodes
		out = append(out, failed)
	case p.Phase == v1.PodPending:
		out = append(out, with(bus.PodPendingEvent, "is pending"))
	case p.Phase == v1.PodRunning:
		out = append(out, with(bus.PodRunningEvent, "is running"))
	}
	return out
}

// exits says with which codes containers ended.
func exits(codes []int32) string {
	if len(codes) == 0 {
		return ""
	}
	return " with exit code " + strings.Trim(fmt.Sprint(codes), "[]")
}

func taskTriggers(t *Task, pods []Pod) []trigger {
	var succeeded, ended, restarts, failed int32
	var last time.Time
	for _, p := range pods {
		if p.Phase == v1.PodFailed && !p.Evicted {
			failed++ // by itself
		}
		if p.Phase == v1.PodSucceeded {
			succeeded++
		}
		if p.Ended() {
			ended++
		} else {
			restarts += p.Restarts
		}
		if p.Since.After(last) {
			last = p.Since
		}
	}
	var out []trigger
	if t.Replicas > 0 && succeeded == t.Replicas {
		out = append(out, trigger{event: bus.TaskCompletedEvent, task: t.Name, since: last, cause: fmt.Sprintf("task %s completed", t.Name)})
	}
	switch {
	case restarts > t.MaxRetry:
		out = append(out, trigger{event: bus.TaskFailedEvent, task: t.Name, since: last, cause: fmt.Sprintf("containers of task %s were restarted %d times", t.Name, restarts)})
	case t.Replicas > 0 && ended == t.Replicas && succeeded < t.Min:
		out = append(out, trigger{event: bus.TaskFailedEvent, task: t.Name, since: last, disrupted: failed == 0, cause: fmt.Sprintf("task %s ended with %d of %d pods succeeded", t.Name, succeeded, t.Min)})
	}
	return out
}

// named says whether a policy's words cover the trigger. The asterisk stands for
// everything that ends or breaks a run; a pod that is pending or running is the
// normal course and must be named.
func (t *trigger) named(events []bus.Event) bool {
	if slices.Contains(events, t.event) {
		return true
	}
	return slices.Contains(events, bus.AnyEvent) && t.event != bus.PodPendingEvent && t.event != bus.PodRunningEvent
}
