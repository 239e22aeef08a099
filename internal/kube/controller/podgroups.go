package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// unknownQueue is the reason of a condition, an event or a phase: the named queue does
// not exist. The API server cannot check that when it accepts an object.
const unknownQueue = "UnknownQueue"

func unknownQueueMessage(name string) string {
	return fmt.Sprintf("spec.queue: queue %q does not exist", name)
}

// conditionInvalidQueue and scheduling.PodGroupUnschedulableType are the conditions of
// a PodGroup that are written here.
const conditionInvalidQueue scheduling.PodGroupConditionType = "InvalidQueue"

// podGroups maintains the status of PodGroups: phase and counts, derived from their
// pods.
type podGroups struct {
	*loop
	clients  *clients
	sources  *sources
	recorder events.EventRecorder
	entrance *entrance
	now      func() time.Time
}

// refreshRefusal is how often the figures in the condition of a PodGroup that waits for its
// queue are brought up to date.
const refreshRefusal = 30 * time.Second

func newPodGroups(c *clients, s *sources, r events.EventRecorder, e *entrance) (*podGroups, error) {
	g := &podGroups{loop: newLoop("podgroups", 50*time.Millisecond, c.timing), clients: c, sources: s, recorder: r, entrance: e, now: time.Now}
	g.reconcile = g.sync
	e.wake = g.enqueue
	return g, errors.Join(
		on(s.priorities, func(_, _ *schedulingv1.PriorityClass) {
			for _, pg := range every[*scheduling.PodGroup](s.podGroups) {
				if pg.Spec.PriorityClassName != "" && pg.Status.Phase == scheduling.PodGroupPending {
					g.enqueue(keyOf(pg))
				}
			}
		}),
		on(s.podGroups, func(_, pg *scheduling.PodGroup) { g.enqueue(keyOf(pg)) }),
		on(s.pods, func(before, p *v1.Pod) {
			if before != nil {
				g.enqueue(groupKey(before)) // it may have moved from one group to another
			}
			g.enqueue(groupKey(p))
		}),
		s.onQueues(func(before, q *scheduling.Queue) {
			if before != nil {
				return // only whether it exists matters
			}
			for _, pg := range find[*scheduling.PodGroup](s.podGroups, byQueue, q.Name) {
				g.enqueue(keyOf(pg))
			}
		}))
}

// sync writes the status of one PodGroup if it has changed.
func (g *podGroups) sync(ctx context.Context, key string) (time.Duration, error) {
	pg, ok := get[*scheduling.PodGroup](g.sources.podGroups, key)
	if !ok || pg.DeletionTimestamp != nil {
		g.entrance.forget(key)
		return 0, nil
	}
	pods := find[*v1.Pod](g.sources.pods, byGroup, key)
	status, few := groupStatus(pg, pods)
	again, refused := time.Duration(0), ""
	if few {
		priority := int32(0)
		if class, ok := get[*schedulingv1.PriorityClass](g.sources.priorities, pg.Spec.PriorityClassName); ok {
			priority = class.Value
		}
		why, known := g.entrance.ask(key, demandOf(pg, priority))
		if !known {
			return 0, nil // it is woken when queues are known
		}
		if why.Is() {
			status.Phase, again = scheduling.PodGroupPending, refreshRefusal
		}
		if why.Code != explain.NoQueue { // that is a condition of its own, below
			refused = why.String()
		}
	} else {
		g.entrance.forget(key)
	}
	problem := ""
	if _, exists := g.sources.queue(dialect.QueueOrDefault(pg.Spec.Queue)); !exists {
		problem = unknownQueueMessage(pg.Spec.Queue)
	}
	lacks := ""
	if status.Phase != scheduling.PodGroupRunning && status.Phase != scheduling.PodGroupCompleted {
		lacks = cmp.Or(refused, whyUnschedulable(pods))
	}
	was := &pg.Status
	conditions := with(was.Conditions, g.now(), conditionInvalidQueue, unknownQueue, problem)
	conditions = with(conditions, g.now(), scheduling.PodGroupUnschedulableType, scheduling.NotEnoughResourcesReason, lacks)
	unchanged := slices.Equal(conditions, was.Conditions)
	same := was.Phase == status.Phase && was.Running == status.Running && was.Succeeded == status.Succeeded && was.Failed == status.Failed
	if same && unchanged {
		return again, nil
	}
	// Only our own fields are in the patch, so that other writers' fields stay.
	patch := map[string]any{"status": map[string]any{
		"phase": status.Phase, "running": status.Running, "succeeded": status.Succeeded, "failed": status.Failed,
	}}
	if !unchanged { // the list is replaced as a whole, so it must be the version that was read
		patch["status"].(map[string]any)["conditions"] = append([]scheduling.PodGroupCondition{}, conditions...)
		patch["metadata"] = map[string]any{"resourceVersion": pg.ResourceVersion}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return 0, err
	}
	_, err = g.clients.podGroups(pg.Namespace).Patch(ctx, pg.Name, types.MergePatchType, data, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err == nil && problem != "" && !slices.ContainsFunc(was.Conditions, isOf(conditionInvalidQueue)) {
		g.recorder.Eventf(pg, nil, v1.EventTypeWarning, unknownQueue, "Sync", "%s", problem)
	}
	return again, err
}

// groupStatus is the phase and the counts that follow from the group's pods. few: too few
// pods exist and none is placed, so that the phase is Inqueue only if the queue can take
// the group.
//
//	Pending    too few pods exist, none is placed, and the queue cannot take them now
//	Inqueue    they may exist; they wait to be created, placed or started
//	Running    enough run or have succeeded
//	Unknown    some run, too few are placed, and one cannot be
//	Completed  all have ended, and there were enough
//
// A group with a placed pod, and one that is Inqueue already, does not go back to Pending:
// an operator that waits for Inqueue could not replace a pod that it lost, or create the
// last ones.
func groupStatus(pg *scheduling.PodGroup, pods []*v1.Pod) (st scheduling.PodGroupStatus, few bool) {
	var active, placed int32
	unschedulable := false
	for _, p := range pods {
		switch p.Status.Phase {
		case v1.PodSucceeded:
			st.Succeeded++
			continue
		case v1.PodFailed:
			st.Failed++
			continue
		case v1.PodRunning:
			st.Running++
		}
		active++
		if p.Spec.NodeName != "" {
			placed++
		}
		if _, ok := unschedulableSince(p); ok {
			unschedulable = true
		}
	}
	least := max(1, pg.Spec.MinMember)
	switch {
	case active == 0 && st.Succeeded+st.Failed >= least:
		st.Phase = scheduling.PodGroupCompleted
	case st.Running > 0 && st.Running+st.Succeeded >= least:
		st.Phase = scheduling.PodGroupRunning
	case st.Running > 0 && placed+st.Succeeded < least && unschedulable:
		st.Phase = scheduling.PodGroupUnknown
	default:
		st.Phase = scheduling.PodGroupInqueue
		few = active+st.Succeeded < least && placed == 0 && pg.Status.Phase != scheduling.PodGroupInqueue
	}
	return st, few
}

// unschedulableSince says whether the scheduler has marked a pod unschedulable, and
// since when.
func unschedulableSince(p *v1.Pod) (time.Time, bool) {
	if i := slices.IndexFunc(p.Status.Conditions, lacksNodes); i >= 0 {
		return p.Status.Conditions[i].LastTransitionTime.Time, p.Spec.NodeName == ""
	}
	return time.Time{}, false
}

// lacksNodes says whether a condition is that a pod waits for capacity, which an autoscaler
// sees on the pod itself or on its placeholder.
func lacksNodes(c v1.PodCondition) bool {
	return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && (c.Reason == v1.PodReasonUnschedulable || c.Reason == names.ReasonWaitingForNodes)
}

// whyUnschedulable is the scheduler's message on the first unschedulable pod by name;
// "" if there is none.
func whyUnschedulable(pods []*v1.Pod) string {
	first, message := "", ""
	for _, p := range pods {
		i := slices.IndexFunc(p.Status.Conditions, lacksNodes)
		if i >= 0 && p.DeletionTimestamp == nil && p.Spec.NodeName == "" && (first == "" || p.Name < first) {
			first, message = p.Name, p.Status.Conditions[i].Message
		}
	}
	return message
}

// with is a list of conditions in which one kind has a message, or is absent without
// one. An unchanged condition keeps its times.
func with(list []scheduling.PodGroupCondition, now time.Time, kind scheduling.PodGroupConditionType, reason, message string) []scheduling.PodGroupCondition {
	at := slices.IndexFunc(list, isOf(kind))
	switch {
	case at >= 0 && list[at].Message == message, at < 0 && message == "":
		return list
	case message == "":
		return slices.Delete(slices.Clone(list), at, at+1)
	}
	list = slices.Clone(list)
	if at < 0 {
		list, at = append(list, scheduling.PodGroupCondition{LastTransitionTime: metav1.NewTime(now)}), len(list)
	}
	one := &list[at]
	one.Type, one.Status, one.Reason, one.Message = kind, v1.ConditionTrue, reason, message
	return list
}

func isOf(kind scheduling.PodGroupConditionType) func(scheduling.PodGroupCondition) bool {
	return func(c scheduling.PodGroupCondition) bool { return c.Type == kind }
}
