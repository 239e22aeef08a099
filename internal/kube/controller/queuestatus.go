package controller

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

const rootQueue = "root" // the parent of every queue that names none

// tree is all queues, by name.
type tree map[string]*scheduling.Queue

// parent is parentOf a queue by name.
func (t tree) parent(name string) string {
	if q := t[name]; q != nil {
		return parentOf(q)
	}
	return ""
}

// parentOf is the name of the queue above; "" for the root.
func parentOf(q *scheduling.Queue) string {
	if q.Name == rootQueue {
		return ""
	}
	return cmp.Or(q.Spec.Parent, rootQueue)
}

func closed(q *scheduling.Queue) bool {
	return q.Status.State == scheduling.QueueStateClosed || q.Status.State == scheduling.QueueStateClosing
}

// problem is why a queue's position in the tree is invalid: a reason and a message that
// names the field; empty if it is valid.
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

// status is each queue's status: counts of PodGroups, and what its placed pods are
// charged. A queue's charges include those of its child queues. The second result has the
// charges of each queue's own pods.
func (t tree) status(groups []*scheduling.PodGroup, pods []*v1.Pod, c *charges) (map[string]*scheduling.QueueStatus, load) {
	out := map[string]*scheduling.QueueStatus{}
	for name := range t {
		out[name] = &scheduling.QueueStatus{}
	}
	queueOf := map[string]string{} // by key of the group
	for _, g := range groups {
		queueOf[keyOf(g)] = g.Spec.Queue
		st := out[dialect.QueueOrDefault(g.Spec.Queue)]
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
	used, own := t.charge(pods, queueOf, c)
	for name, q := range t {
		out[name].Allocated = dialect.Quantities(used[name])
		out[name].State = t.state(q, out[name])
		out[name].Reservation = q.Status.Reservation
	}
	return out, own
}

// charge is what each queue's placed pods, and those of its child queues, are charged; and
// what its own pods are.
func (t tree) charge(pods []*v1.Pod, queueOf map[string]string, c *charges) (map[string]map[arbiter.Resource]int64, load) {
	used, own := make(map[string]map[arbiter.Resource]int64, len(t)), load{}
	for name := range t {
		used[name] = map[arbiter.Resource]int64{}
	}
	c.keep(pods)
	for _, p := range pods {
		if p.Spec.NodeName == "" || ended(p) || !dialect.Charged(p) {
			continue
		}
		queue := podQueue(p, queueOf)
		if t.refuses(queue, p.Namespace) != "" {
			queue = rootQueue // it counts against the cluster alone, as in the scheduler
		}
		amounts, seen := c.of(p), map[string]bool{}
		own.add(queue, ptr.Deref(p.Spec.Priority, 0), amounts)
		for at := queue; at != "" && used[at] != nil && !seen[at]; at = t.parent(at) {
			seen[at] = true
			for r, n := range amounts {
				used[at][r] += n
			}
		}
	}
	return used, own
}

// refuses is the queue that does not take the pods of a namespace: the given one or the
// nearest above it; "" when all take them.
func (t tree) refuses(queue, namespace string) string {
	seen := map[string]bool{}
	for at := queue; at != "" && t[at] != nil && !seen[at]; at = t.parent(at) {
		seen[at] = true
		if list, ok := dialect.QueueNamespaces(t[at]); ok && len(list) > 0 && !slices.Contains(list, namespace) {
			return at
		}
	}
	return ""
}

// podQueue is the queue that a pod is charged to, by the scheduler's own rule.
func podQueue(p *v1.Pod, byGroup map[string]string) string {
	m, _ := dialect.MembershipOf(p)
	if m.Groups != dialect.PodGroups {
		return dialect.PodQueue(p, "") // Kubernetes' own PodGroups name no queue
	}
	return dialect.PodQueue(p, byGroup[m.PodGroup])
}

// state is whether the queue accepts jobs. A queue that was closed stays closed, also
// without a valid position in the tree.
func (t tree) state(q *scheduling.Queue, st *scheduling.QueueStatus) scheduling.QueueState {
	reason, _ := t.problem(q.Name)
	switch {
	case closed(q) && st.Pending+st.Inqueue+st.Running+st.Unknown > 0:
		return scheduling.QueueStateClosing
	case closed(q):
		return scheduling.QueueStateClosed
	case reason != "":
		return scheduling.QueueStateUnknown
	}
	return scheduling.QueueStateOpen
}
