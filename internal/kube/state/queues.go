package state

import (
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// queues is the tree of queues as the API describes it.
type queues struct {
	byName map[string]arbiter.Queue
	// unread is what is wrong with those that could not be read, by name.
	unread map[string]error
	// tree is what can be used of them, mistakes is what is wrong with the others.
	tree     []arbiter.Queue
	mistakes map[string]error
	// telling: owners will be told of mistakes in a moment.
	telling bool
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
// left out, and its owner told; the others count.
func (c *Cluster) syncQueue(name string) {
	c.mu.Lock()
	object := c.objects[dialect.Queues].get(name)
	before, known := c.queues.byName[name]
	delete(c.queues.byName, name)
	delete(c.queues.unread, name)
	if object != nil && name != arbiter.Root {
		if q, err := dialect.QueueOf(object); err != nil {
			c.queues.unread[name] = err
		} else {
			c.queues.byName[name] = q
		}
	}
	if now, still := c.queues.byName[name]; known && still && reflect.DeepEqual(before, now) {
		c.mu.Unlock()
		return // its status says something new, which is for people
	}
	list := []arbiter.Queue{}
	if _, ok := c.queues.byName[arbiter.Default]; !ok {
		list = append(list, defaultQueue)
	}
	list = slices.AppendSeq(list, maps.Values(c.queues.byName))
	c.queues.tree, c.queues.mistakes = arbiter.Usable(list)
	if c.active() {
		c.startEngine()
	}
	if c.gangs.engine != nil {
		_ = c.gangs.engine.Tree().SetQueues(c.queues.tree) // validated
		c.gangs.engine.Changed()
	}
	maps.Copy(c.queues.mistakes, c.queues.unread)
	if object == nil {
		c.complainOnce("queue/"+name, nil)
	}
	if !c.queues.telling {
		c.queues.telling = true
		time.AfterFunc(queuePatience, c.tellQueues)
	}
	c.mu.Unlock()
	c.kick()
}

// queuePatience is how long a queue may make no sense before its owner is told: at the
// start, and when several are applied, those above may come after those below.
const queuePatience = time.Second

// tellQueues tells owners what is wrong with their queues.
func (c *Cluster) tellQueues() {
	c.mu.Lock()
	c.queues.telling = false
	tell := c.queueComplaints(c.queues.mistakes)
	c.mu.Unlock()
	for _, complaint := range tell {
		complaint()
	}
}

// queueComplaints are the reports about queues whose mistakes are new: a change of
// one may take another its place.
func (c *Cluster) queueComplaints(mistakes map[string]error) []func() {
	var tell []func()
	known := slices.AppendSeq(slices.Collect(maps.Keys(c.queues.byName)), maps.Keys(c.queues.unread))
	for _, name := range known {
		object, problem := c.objects[dialect.Queues].get(name), mistakes[name]
		if object == nil || !c.complainOnce("queue/"+name, problem) {
			continue
		}
		about := &v1.ObjectReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: name, UID: object.GetUID()}
		tell = append(tell, func() { c.report(about, "InvalidQueue", problem.Error()) })
	}
	return tell
}
