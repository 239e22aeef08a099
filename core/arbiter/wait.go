package arbiter

import "github.com/tangram-dev/tangram/core/explain"

// Wait is why a job is not offered now. The zero value says that nothing keeps
// it: it waits for its turn, or for a place.
type Wait struct {
	// Code is one of NoQueue, InnerQueue, QueueForbidden, QueueClosed, OverQuota,
	// OverCapability, Guaranteed and OverTotal.
	Code explain.Code
	// Queue is the queue in question: the job's, or one above it.
	Queue     string
	Namespace string // for OverQuota and QueueForbidden
	Resource  Resource
	// Need is what the job asks for, Limit the most there may be in use, Used what
	// is. For Guaranteed, Used includes what is kept.
	Need, Limit, Used int64
}

// ForQuota says that no new node would help: the job waits for a queue or a quota.
// Otherwise it waits for capacity, or not at all.
func (w Wait) ForQuota() bool { return w.Code.Class() == explain.ForQuota }

// forRoom says that the job waits for what others use or are guaranteed, not for a change of
// queues.
func (w Wait) forRoom() bool { return w.Code.Permanence() == explain.Temporary }

// Never says that the job asks for more than the limit itself, so that it waits
// until one of them is changed.
func (w Wait) Never() bool { return w.Need > w.Limit }

// Reason is the wait as a reason; none for the zero value.
func (w Wait) Reason() explain.Reason {
	return explain.Reason{
		Code: w.Code, Never: w.Never(), Queue: w.Queue, Namespace: w.Namespace, Resource: string(w.Resource),
		Want: w.Need, Limit: w.Limit, Used: w.Used,
	}
}

// Why says what keeps a waiting job from being offered. The zero value: nothing
// does, or it does not wait. Cost: depth of the tree.
func (t *Tree) Why(id JobID) Wait {
	if e := t.jobs.waiting(id); e != nil {
		return t.queues.may(e, e.class.needs)
	}
	return Wait{}
}

// May says what would keep a job from being charged the amounts now, on top of
// what it is. Ask before a job is placed on something it did not name (any GPU,
// on an A100), or before it grows.
func (t *Tree) May(id JobID, amounts Amounts) Wait {
	if e := t.jobs.byID[id]; e != nil {
		return t.queues.may(e, t.queues.dict.needs(amounts))
	}
	return Wait{}
}

// may returns the first thing that is in the way: what needs a change of
// queues or quotas before what needs capacity, the job's own queue before those above.
func (h *hierarchy) may(e *entry, needs []need) Wait {
	if e.node == nil {
		n := h.byName[e.Queue]
		if n == nil {
			return Wait{Code: explain.NoQueue, Queue: e.Queue}
		}
		if by := n.refuses(e.Namespace); by != nil { // before what is in the queue is told
			return Wait{Code: explain.QueueForbidden, Queue: by.Name, Namespace: e.Namespace}
		}
		return Wait{Code: explain.InnerQueue, Queue: e.Queue}
	}
	if !e.runs {
		for n := e.node; n != nil; n = n.parent {
			if n.Closed {
				return Wait{Code: explain.QueueClosed, Queue: n.Name}
			}
		}
	}
	s := e.namespace
	for _, d := range needs {
		if s.used[d.resource]+d.amount > s.hard[d.resource] {
			return Wait{
				Code: explain.OverQuota, Queue: e.node.Name, Namespace: e.Namespace, Resource: h.dict.names[d.resource],
				Need: d.amount, Limit: s.hard[d.resource], Used: s.used[d.resource],
			}
		}
	}
	for _, d := range needs {
		for n := e.node; n != nil; n = n.parent {
			if used := n.used[d.resource]; used+d.amount > n.cap[d.resource] {
				return h.short(explain.OverCapability, n, d, n.cap[d.resource], used)
			}
		}
	}
	return h.mayFit(e, needs)
}

// mayFit compares with what the cluster has, and with what is kept for others.
func (h *hierarchy) mayFit(e *entry, needs []need) Wait {
	for _, d := range needs {
		total := h.total[d.resource]
		if used := h.root.used[d.resource]; total > 0 && used+d.amount > total {
			return h.short(explain.OverTotal, h.root, d, total, used)
		}
	}
	for _, d := range needs {
		added := d.amount
		for n := e.node; n != nil && added > 0; n = n.parent {
			booked := max(n.floor[d.resource], n.within[d.resource]+added)
			added = booked - n.booked[d.resource]
			limit := h.limit(n, d.resource)
			if added > 0 && booked > limit {
				return h.short(explain.Guaranteed, n, d, limit, n.booked[d.resource])
			}
		}
	}
	return Wait{}
}

func (h *hierarchy) short(c explain.Code, n *node, d need, limit, used int64) Wait {
	return Wait{Code: c, Queue: n.Name, Resource: h.dict.names[d.resource], Need: d.amount, Limit: limit, Used: used}
}

// never compares with what is kept for others when nothing is in use.
func (h *hierarchy) never(e *entry, needs []need) Wait {
	for _, d := range needs {
		r, added := d.resource, d.amount
		for n := e.node; n != nil && added > 0; n = n.parent {
			kept := int64(0)
			for _, c := range n.children {
				kept += c.floor[r]
			}
			booked := max(n.floor[r], kept+added)
			if limit := h.limit(n, r); booked > limit {
				return h.short(explain.Guaranteed, n, d, limit, kept)
			}
			added = booked - n.floor[r]
		}
	}
	return Wait{}
}
