package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Some operators create no pods while the phase of their PodGroup is Pending: Volcano's
// enqueue action makes it Inqueue when the queue has room for spec.minResources. Here it
// means the same, and nothing more: a PodGroup that is Inqueue holds neither quota nor
// nodes. What starts is decided when its pods exist, by the scheduler, for all alike.

// demand is what a PodGroup that has too few pods asks of its queue.
type demand struct {
	queue, namespace string
	priority         int32
	amounts          map[arbiter.Resource]int64
}

// demandOf is spec.minResources of a PodGroup, with the priority of its class.
func demandOf(pg *scheduling.PodGroup, priority int32) demand {
	d := demand{queue: dialect.QueueOrDefault(pg.Spec.Queue), namespace: pg.Namespace, priority: priority}
	if pg.Spec.MinResources != nil {
		d.amounts = dialect.Amounts(*pg.Spec.MinResources)
	}
	return d
}

// load is what the placed pods of each queue are charged, by the pods' priority.
type load map[string]map[int32]map[arbiter.Resource]int64

func (l load) add(queue string, priority int32, amounts map[arbiter.Resource]int64) {
	if l[queue] == nil {
		l[queue] = map[int32]map[arbiter.Resource]int64{}
	}
	if l[queue][priority] == nil {
		l[queue][priority] = map[arbiter.Resource]int64{}
	}
	for r, n := range amounts {
		l[queue][priority][r] += n
	}
}

// from is how much of a resource the pods of a priority and above hold.
func (l load) from(queue string, priority int32, r arbiter.Resource) (n int64) {
	for p, amounts := range l[queue] {
		if p >= priority {
			n += amounts[r]
		}
	}
	return n
}

// refusal is why a queue cannot take a demand; no reason when it can.
//
// Of the queue itself it counts what is in use by pods of the same priority and above: the
// others may be preempted, but only for pods that exist. Of the queues above it asks only
// for the limit: what siblings use beyond their share may be reclaimed, again for pods
// that exist.
func (t tree) refusal(d demand, l load) explain.Reason {
	r := explain.Reason{Queue: d.queue, Namespace: d.namespace}
	if t[d.queue] == nil {
		r.Code = explain.NoQueue
		return r
	}
	if _, problem := t.problem(d.queue); problem != "" {
		r.Code, r.Detail = explain.Invalid, fmt.Sprintf("queue %q: %s", d.queue, problem)
		return r
	}
	if by := t.refuses(d.queue, d.namespace); by != "" {
		r.Code, r.Queue = explain.QueueForbidden, by
		return r
	}
	for at := d.queue; at != ""; at = t.parent(at) {
		q := t[at]
		if q == nil {
			break // the root need not exist
		}
		if closed(q) {
			r.Code, r.Queue = explain.QueueClosed, at
			return r
		}
		limits := dialect.Amounts(q.Spec.Capability)
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			need, limit, used := d.amounts[name], limits[name], int64(0)
			if at == d.queue {
				used = l.from(at, d.priority, name)
			}
			if need > 0 && used+need > limit {
				r.Code, r.Queue, r.Resource, r.Never = explain.OverCapability, at, string(name), need > limit
				r.Want, r.Limit, r.Used = need, limit, used
				return r
			}
		}
	}
	for _, q := range t {
		if q.Name != d.queue && parentOf(q) == d.queue {
			r.Code = explain.InnerQueue
			return r
		}
	}
	return explain.Reason{}
}

// entrance answers demands with what was last known of queues, and says when a demand
// that was refused can be taken.
type entrance struct {
	mu      sync.Mutex
	tree    tree // nil until queues have been read
	load    load
	refused map[string]demand // by key of the PodGroup
	wake    func(key string)
}

func newEntrance() *entrance { return &entrance{refused: map[string]demand{}, wake: func(string) {}} }

// ask is why a PodGroup's demand is refused now; false when queues are not known yet. One
// that is refused is woken when it can be taken.
func (e *entrance) ask(key string, d demand) (why explain.Reason, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tree != nil {
		why = e.tree.refusal(d, e.load)
	}
	if e.tree == nil || why.Is() {
		e.refused[key] = d
	} else {
		delete(e.refused, key)
	}
	return why, e.tree != nil
}

// forget is called for PodGroups that ask for nothing, or are gone.
func (e *entrance) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.refused, key)
}

// changed takes note of queues and of what they use. Cost: one look per refused demand, no
// call to the API.
func (e *entrance) changed(t tree, l load) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.tree == nil
	e.tree, e.load = t, l
	for key, d := range e.refused {
		if why := t.refusal(d, l); first || !why.Is() {
			e.wake(key)
		}
	}
}
