package state

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// queues is the tree of queues as the API describes it.
type queues struct {
	byName map[string]arbiter.Queue
	// tree is the last valid list.
	tree []arbiter.Queue
}

// defaultQueue is the queue of those who name none, where nobody describes it.
var defaultQueue = arbiter.Queue{Name: arbiter.Default, Weight: 1, Reclaimable: true, Order: arbiter.Priority}

// configured says whether queues make a difference: there is another one than the
// default, or the default one has limits.
func (q *queues) configured() bool {
	for name, queue := range q.byName {
		if name != arbiter.Default && name != arbiter.Root || len(queue.Capability) > 0 || queue.Closed {
			return true
		}
	}
	return false
}

// syncQueue makes the tree equal to what the API says. A queue that makes no sense is
// left out, and its owner told.
func (c *Cluster) syncQueue(name string) {
	c.mu.Lock()
	was := c.active()
	object := c.objects[dialect.Queues].get(name)
	var problem error
	delete(c.queues.byName, name)
	if object != nil && name != arbiter.Root {
		var q arbiter.Queue
		if q, problem = dialect.QueueOf(object); problem == nil {
			c.queues.byName[name] = q
		}
	}
	list := []arbiter.Queue{}
	if _, ok := c.queues.byName[arbiter.Default]; !ok {
		list = append(list, defaultQueue)
	}
	for _, n := range slices.Sorted(maps.Keys(c.queues.byName)) {
		list = append(list, c.queues.byName[n])
	}
	if err := arbiter.ValidateQueues(list); err != nil {
		if problem == nil {
			problem = err
		}
	} else {
		c.queues.tree = list
	}
	switch now := c.active(); {
	case now && !was:
		c.startEngine()
	case !now && was:
		c.stopEngine()
	case now && c.gangs.engine != nil:
		_ = c.gangs.engine.Tree().SetQueues(c.queues.tree) // validated
		c.gangs.engine.Changed()
	}
	complain := c.complainOnce("queue/"+name, problem)
	c.mu.Unlock()
	c.kick()
	if complain && object != nil {
		c.report(&v1.ObjectReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: name, UID: object.GetUID()}, "InvalidQueue", problem.Error())
	}
}
