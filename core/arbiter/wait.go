package arbiter

import "fmt"

// Code says what keeps a job from being offered.
type Code uint8

// Codes. The first ones need a change of queues or quotas, or that their jobs end; the
// last two more capacity.
const (
	// NoQueue: there is no queue of that name.
	NoQueue Code = iota + 1
	// InnerQueue: the queue has queues below it and takes no jobs itself.
	InnerQueue
	// QueueForbidden: the queue, or one above it, does not take jobs of the namespace.
	QueueForbidden
	// QueueClosed: the queue, or one above it, is closed.
	QueueClosed
	// OverQuota: the namespace's quota has no room.
	OverQuota
	// OverCapability: the queue, or one above it, may not use as much.
	OverCapability
	// Reserved: there is enough in all, but too much of it is guaranteed to other
	// queues.
	Reserved
	// OverTotal: the cluster has not as much left.
	OverTotal
)

// String is the code's stable name, for metrics and goldens.
func (c Code) String() string {
	switch c {
	case NoQueue:
		return "NoQueue"
	case InnerQueue:
		return "InnerQueue"
	case QueueForbidden:
		return "QueueForbidden"
	case QueueClosed:
		return "QueueClosed"
	case OverQuota:
		return "OverQuota"
	case OverCapability:
		return "OverCapability"
	case Reserved:
		return "Reserved"
	case OverTotal:
		return "OverTotal"
	}
	return "Unspecified"
}

// Wait is why a job is not offered now. The zero value says that nothing keeps
// it: it waits for its turn, or for a place.
type Wait struct {
	Code Code
	// Queue is the queue in question: the job's, or one above it.
	Queue     string
	Namespace string // for OverQuota and QueueForbidden
	Resource  Resource
	// Need is what the job asks for, Limit the most there may be in use, Used what
	// is. For Reserved, Used includes what is kept.
	Need, Limit, Used int64
}

// ForQuota says that no new node would help: the job waits for a queue or a quota.
// Otherwise it waits for capacity, or not at all.
func (w Wait) ForQuota() bool { return w.Code >= NoQueue && w.Code <= OverCapability }

// Never says that the job asks for more than the limit itself, so that it waits
// until one of them is changed.
func (w Wait) Never() bool { return w.Code >= OverQuota && w.Need > w.Limit }

// String is one sentence.
func (w Wait) String() string {
	switch w.Code {
	case NoQueue:
		return fmt.Sprintf("waits for quota: there is no queue %s", w.Queue)
	case InnerQueue:
		return fmt.Sprintf("waits for quota: queue %s takes no jobs, only the queues below it do", w.Queue)
	case QueueForbidden:
		return fmt.Sprintf("waits for quota: namespace %s may not use queue %s", w.Namespace, w.Queue)
	case QueueClosed:
		return fmt.Sprintf("waits for quota: queue %s is closed", w.Queue)
	case OverQuota:
		return fmt.Sprintf("waits for quota: namespace %s may use %d %s, %d in use, needs %d", w.Namespace, w.Limit, w.Resource, w.Used, w.Need)
	case OverCapability:
		return fmt.Sprintf("waits for quota: queue %s may use %d %s, %d in use, needs %d", w.Queue, w.Limit, w.Resource, w.Used, w.Need)
	case Reserved:
		return fmt.Sprintf("waits for capacity: of %d %s in %s, %d are in use or kept for guarantees, needs %d", w.Limit, w.Resource, w.Queue, w.Used, w.Need)
	case OverTotal:
		return fmt.Sprintf("waits for capacity: the cluster has %d %s, %d in use, needs %d", w.Limit, w.Resource, w.Used, w.Need)
	}
	return "waits for its turn"
}

// Why says what keeps a waiting job from being offered. The zero value: nothing
// does, or it does not wait. Cost: depth of the tree.
func (t *Tree) Why(id JobID) Wait {
	e := t.jobs[id]
	if e == nil || e.runs {
		return Wait{}
	}
	return t.may(e, e.class.needs)
}

// May says what would keep a job from being charged the amounts now, on top of
// what it is. Ask before a job is placed on something it did not name (any GPU,
// on an A100), or before it grows.
func (t *Tree) May(id JobID, amounts Amounts) Wait {
	if e := t.jobs[id]; e != nil {
		return t.may(e, t.dict.needs(amounts))
	}
	return Wait{}
}

// may returns the first thing that is in the way: what needs a change of
// queues or quotas before what needs capacity, the job's own queue before those above.
func (t *Tree) may(e *entry, needs []need) Wait {
	if e.node == nil {
		n := t.byName[e.Queue]
		if n == nil {
			return Wait{Code: NoQueue, Queue: e.Queue}
		}
		if by := n.refuses(e.Namespace); by != nil { // before what is in the queue is told
			return Wait{Code: QueueForbidden, Queue: by.Name, Namespace: e.Namespace}
		}
		return Wait{Code: InnerQueue, Queue: e.Queue}
	}
	if !e.runs {
		for n := e.node; n != nil; n = n.parent {
			if n.Closed {
				return Wait{Code: QueueClosed, Queue: n.Name}
			}
		}
	}
	s := e.namespace
	for _, d := range needs {
		if s.used[d.resource]+d.amount > s.hard[d.resource] {
			return Wait{
				Code: OverQuota, Queue: e.node.Name, Namespace: e.Namespace, Resource: t.dict.names[d.resource],
				Need: d.amount, Limit: s.hard[d.resource], Used: s.used[d.resource],
			}
		}
	}
	for _, d := range needs {
		for n := e.node; n != nil; n = n.parent {
			if used := n.used[d.resource]; used+d.amount > n.cap[d.resource] {
				return t.short(OverCapability, n, d, n.cap[d.resource], used)
			}
		}
	}
	return t.mayFit(e, needs)
}

// mayFit compares with what the cluster has, and with what is kept for others.
func (t *Tree) mayFit(e *entry, needs []need) Wait {
	for _, d := range needs {
		total := t.total[d.resource]
		if used := t.root.used[d.resource]; total > 0 && used+d.amount > total {
			return t.short(OverTotal, t.root, d, total, used)
		}
	}
	for _, d := range needs {
		added := d.amount
		for n := e.node; n != nil && added > 0; n = n.parent {
			booked := max(n.floor[d.resource], n.within[d.resource]+added)
			added = booked - n.booked[d.resource]
			limit := t.limit(n, d.resource)
			if added > 0 && booked > limit {
				return t.short(Reserved, n, d, limit, n.booked[d.resource])
			}
		}
	}
	return Wait{}
}

func (t *Tree) short(c Code, n *node, d need, limit, used int64) Wait {
	return Wait{Code: c, Queue: n.Name, Resource: t.dict.names[d.resource], Need: d.amount, Limit: limit, Used: used}
}
