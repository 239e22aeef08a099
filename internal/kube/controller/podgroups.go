package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// unknownQueue is the reason of a condition, an event or a phase: the queue that is
// named does not exist. The API server cannot see that when it accepts an object.
const unknownQueue = "UnknownQueue"

func unknownQueueMessage(name string) string {
	return fmt.Sprintf("spec.queue: queue %q does not exist", name)
}

// conditionInvalidQueue is the one condition of a PodGroup that is written here.
const conditionInvalidQueue scheduling.PodGroupConditionType = "InvalidQueue"

// podGroups keeps the status of PodGroups: phase and counts, of their real pods.
type podGroups struct {
	*loop
	clients  *clients
	sources  *sources
	recorder events.EventRecorder
	now      func() time.Time
}

func newPodGroups(c *clients, s *sources, r events.EventRecorder) (*podGroups, error) {
	g := &podGroups{loop: newLoop("podgroups", 50*time.Millisecond), clients: c, sources: s, recorder: r, now: time.Now}
	g.reconcile = g.sync
	if err := on(s.podGroups, func(_ **scheduling.PodGroup, pg *scheduling.PodGroup) { g.look(keyOf(pg)) }); err != nil {
		return nil, err
	}
	if err := on(s.pods, func(before **v1.Pod, p *v1.Pod) {
		if before != nil {
			g.look(groupKey(*before)) // it may have left one for another
		}
		g.look(groupKey(p))
	}); err != nil {
		return nil, err
	}
	return g, on(s.queues, func(before **scheduling.Queue, q *scheduling.Queue) {
		if before != nil {
			return // only whether it exists matters
		}
		for _, pg := range find[*scheduling.PodGroup](s.podGroups, byQueue, q.Name) {
			g.look(keyOf(pg))
		}
	})
}

// sync writes the status of one PodGroup if it is not true any more.
func (g *podGroups) sync(ctx context.Context, key string) (time.Duration, error) {
	pg, ok := get[*scheduling.PodGroup](g.sources.podGroups, key)
	if !ok || pg.DeletionTimestamp != nil {
		return 0, nil
	}
	status := groupStatus(pg, find[*v1.Pod](g.sources.pods, byGroup, key))
	conditions, problem := g.queueCondition(pg)
	was := &pg.Status
	same := was.Phase == status.Phase && was.Running == status.Running && was.Succeeded == status.Succeeded && was.Failed == status.Failed
	if same && conditions == nil {
		return 0, nil
	}
	// Only what is ours is named, so that the scheduler's conditions stay as they are.
	patch := map[string]any{"status": map[string]any{
		"phase": status.Phase, "running": status.Running, "succeeded": status.Succeeded, "failed": status.Failed,
	}}
	if conditions != nil { // a list is replaced whole: then nobody may have changed it
		patch["status"].(map[string]any)["conditions"] = conditions
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
	if err == nil && problem != "" && conditions != nil {
		g.recorder.Eventf(pg, nil, v1.EventTypeWarning, unknownQueue, "Sync", "%s", problem)
	}
	return 0, err
}

// groupStatus is the phase and the counts that follow from the group's pods.
//
//	Pending    fewer pods exist than the gang needs
//	Inqueue    enough exist; they wait to be placed or started
//	Running    enough run or have succeeded
//	Unknown    some run, too few are placed, and one cannot be
//	Completed  all have ended, and there were enough
func groupStatus(pg *scheduling.PodGroup, pods []*v1.Pod) scheduling.PodGroupStatus {
	var st scheduling.PodGroupStatus
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
	case active+st.Succeeded >= least:
		st.Phase = scheduling.PodGroupInqueue
	default:
		st.Phase = scheduling.PodGroupPending
	}
	return st
}

// unschedulableSince says whether the scheduler has given up on a pod for now.
func unschedulableSince(p *v1.Pod) (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time, p.Spec.NodeName == ""
		}
	}
	return time.Time{}, false
}

// queueCondition is the list of conditions with ours in it or out of it, as the queue
// exists or not; nil when that is so already.
func (g *podGroups) queueCondition(pg *scheduling.PodGroup) (conditions []scheduling.PodGroupCondition, problem string) {
	_, exists := get[*scheduling.Queue](g.sources.queues, orDefault(pg.Spec.Queue))
	at := slices.IndexFunc(pg.Status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == conditionInvalidQueue })
	switch {
	case exists && at >= 0:
		return slices.Delete(append([]scheduling.PodGroupCondition{}, pg.Status.Conditions...), at, at+1), ""
	case !exists && at < 0:
		problem = unknownQueueMessage(pg.Spec.Queue)
		return append(slices.Clone(pg.Status.Conditions), scheduling.PodGroupCondition{
			Type: conditionInvalidQueue, Status: v1.ConditionTrue, Reason: unknownQueue, Message: problem,
			LastTransitionTime: metav1.NewTime(g.now()),
		}), problem
	}
	return nil, ""
}
