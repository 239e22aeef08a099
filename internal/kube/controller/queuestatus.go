package controller

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// rootQueue is the parent of every queue that names none.
const rootQueue = "root"

// tree is all queues, by name.
type tree map[string]*scheduling.Queue

// parent is the queue above; "" for the root.
func (t tree) parent(name string) string {
	if q := t[name]; q != nil {
		return parentOf(q)
	}
	return ""
}

// parentOf is the name of the queue above; "" for the root.
func parentOf(q *scheduling.Queue) string {
	switch {
	case q.Name == rootQueue:
		return ""
	case q.Spec.Parent == "":
		return rootQueue
	default:
		return q.Spec.Parent
	}
}

// problem says why a queue has no place in the tree, in one word and naming the field,
// or nothing.
func (t tree) problem(name string) (reason, message string) {
	const unknown, circle = "UnknownParent", "CircularParent"
	seen := map[string]bool{}
	for at := name; at != ""; {
		if seen[at] {
			if at == name {
				return circle, fmt.Sprintf("spec.parent: queue %q is above itself", name)
			}
			return circle, fmt.Sprintf("spec.parent: queue %q, above this one, is above itself", at)
		}
		seen[at] = true
		up := t.parent(at)
		if up != "" && up != rootQueue && t[up] == nil {
			if at == name {
				return unknown, fmt.Sprintf("spec.parent: queue %q does not exist", up)
			}
			return unknown, fmt.Sprintf("spec.parent: queue %q, above this one, has no parent %q", at, up)
		}
		at = up
	}
	return "", ""
}

// status is what each queue's status should say: real counts of PodGroups, and what
// the pods hold that are placed. What a queue holds its parents hold, too.
func (t tree) status(groups []*scheduling.PodGroup, pods []*v1.Pod) map[string]*scheduling.QueueStatus {
	out := map[string]*scheduling.QueueStatus{}
	for name := range t {
		out[name] = &scheduling.QueueStatus{Allocated: v1.ResourceList{}}
	}
	queueOf := map[string]string{} // by key of the group
	for _, g := range groups {
		queue := orDefault(g.Spec.Queue)
		queueOf[keyOf(g)] = queue
		st := out[queue]
		if st == nil {
			continue
		}
		switch g.Status.Phase {
		case scheduling.PodGroupInqueue:
			st.Inqueue++
		case scheduling.PodGroupRunning:
			st.Running++
		case scheduling.PodGroupUnknown:
			st.Unknown++
		case scheduling.PodGroupCompleted:
			st.Completed++
		default:
			st.Pending++
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if queue := podQueue(p, queueOf); queue != "" {
			t.charge(out, queue, p)
		}
	}
	for name, q := range t {
		out[name].State = t.state(q, out[name])
		out[name].Reservation = q.Status.Reservation
	}
	return out
}

// charge adds what a pod holds to its queue and to those above.
func (t tree) charge(out map[string]*scheduling.QueueStatus, queue string, p *v1.Pod) {
	held := resource.PodRequests(p, resource.PodResourcesOptions{}) // the API server has put in what was left out
	seen := map[string]bool{}
	for at := queue; at != "" && out[at] != nil && !seen[at]; at = t.parent(at) {
		seen[at] = true
		for name, q := range held {
			sum := out[at].Allocated[name]
			sum.Add(q)
			out[at].Allocated[name] = sum
		}
	}
}

// podQueue is the queue a pod is charged to: its group's, the one it names, or the
// default of what our schedulers place; "" for pods of others.
func podQueue(p *v1.Pod, byGroup map[string]string) string {
	if queue := byGroup[groupKey(p)]; queue != "" {
		return queue
	}
	for _, queue := range []string{p.Labels[names.LabelQueue], p.Annotations[batch.QueueNameKey], p.Annotations[scheduling.QueueNameAnnotationKey]} {
		if queue != "" {
			return queue
		}
	}
	if s := p.Spec.SchedulerName; s == names.SchedulerName || s == names.VolcanoSchedulerName {
		return lifecycle.DefaultQueue
	}
	return ""
}

// state is whether the queue takes jobs. Who closed it stays obeyed: a closed queue
// without a place in the tree is closed.
func (t tree) state(q *scheduling.Queue, st *scheduling.QueueStatus) scheduling.QueueState {
	switch q.Status.State {
	case scheduling.QueueStateClosed, scheduling.QueueStateClosing:
		if st.Pending+st.Inqueue+st.Running+st.Unknown > 0 {
			return scheduling.QueueStateClosing
		}
		return scheduling.QueueStateClosed
	}
	if reason, _ := t.problem(q.Name); reason != "" {
		return scheduling.QueueStateUnknown
	}
	return scheduling.QueueStateOpen
}
