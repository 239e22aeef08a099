package engine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// queues is the tree of queues as the API describes it.
type queues struct {
	objects workload.Objects
	byName  map[string]arbiter.Queue
	unread  map[string]error // what is wrong with those that could not be read, by name
	// tree is what can be used of them, problems is what is wrong with the others.
	tree     []arbiter.Queue
	problems map[string]error
	// reportAt is when problems are reported; zero when there is nothing new.
	reportAt time.Time
}

// defaultQueue is the queue of gangs that name none, where no object describes it.
var defaultQueue = arbiter.Queue{Name: arbiter.Default, Weight: 1, Reclaimable: true, Order: arbiter.Priority}

// queuePatience is how long a queue may be invalid before that is reported: at the
// start, and when several are applied, queues above may come after those below.
const queuePatience = time.Second

func newQueues(objects workload.Objects) *queues {
	return &queues{objects: objects, byName: map[string]arbiter.Queue{}, unread: map[string]error{}, tree: []arbiter.Queue{defaultQueue}}
}

// read reads a Queue from the store, and says whether the tree is another one now.
func (q *queues) read(name string, c *report.Complaints) bool {
	object := q.object(name)
	before, was := q.byName[name]
	wasUnread := q.unread[name]
	delete(q.byName, name)
	delete(q.unread, name)
	if object == nil {
		c.Clear("queue/" + name)
	} else if name != arbiter.Root {
		if read, err := queueOf(object); err != nil {
			q.unread[name] = err
		} else {
			q.byName[name] = read
		}
	}
	after, is := q.byName[name]
	return was != is || !reflect.DeepEqual(before, after) || fmt.Sprint(wasUnread) != fmt.Sprint(q.unread[name])
}

// object is the object that describes a queue: Volcano's, or KAI's if there is none of
// Volcano's with the name.
func (q *queues) object(name string) *unstructured.Unstructured {
	if o := q.objects[dialect.Queues].Get(name); o != nil {
		return o
	}
	return q.objects[dialect.KAIQueues].Get(name)
}

func queueOf(o *unstructured.Unstructured) (arbiter.Queue, error) {
	if o.GroupVersionKind().Group == dialect.KAIQueues.Group {
		return dialect.KAIQueueOf(o)
	}
	return dialect.QueueOf(o)
}

// build makes the tree of all queues that can be used. An invalid queue is left out; the
// others count.
func (q *queues) build() {
	list := slices.Collect(maps.Values(q.byName))
	if _, ok := q.byName[arbiter.Default]; !ok {
		list = append(list, defaultQueue)
	}
	q.tree, q.problems = arbiter.Usable(list)
	maps.Copy(q.problems, q.unread)
}

// names are the names of the tree's queues, the root's first.
func (q *queues) names() []string {
	names := []string{arbiter.Root}
	for i := range q.tree {
		names = append(names, q.tree[i].Name)
	}
	return names
}

// report reports what is wrong with queues once they have had time to come.
func (q *queues) report(now time.Time, c *report.Complaints) {
	if q.reportAt.IsZero() || now.Before(q.reportAt) {
		return
	}
	q.reportAt = time.Time{}
	names := slices.AppendSeq(slices.Collect(maps.Keys(q.byName)), maps.Keys(q.unread))
	slices.Sort(names)
	for _, name := range names {
		if object := q.object(name); object != nil {
			c.Set("queue/"+name, queueRef(object), q.problems[name], "InvalidQueue")
		}
		if other := q.objects[dialect.KAIQueues].Get(name); other != nil && q.objects[dialect.Queues].Get(name) != nil {
			c.Set("queue/kai/"+name, queueRef(other), errSameName, "InvalidQueue")
		} else {
			c.Clear("queue/kai/" + name)
		}
	}
}

// errSameName is reported on a KAI Queue whose name a Volcano Queue has.
var errSameName = fmt.Errorf("metadata.name: a Queue of %s has this name; it counts, and this one does not", dialect.Queues.Group)

func queueRef(o *unstructured.Unstructured) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}

// setQueues makes core's tree equal to what the API says.
func (d *driver) setQueues(now time.Time) {
	d.queues.build()
	if err := d.tell(engine.QueuesSet{Queues: d.queues.tree}).Err; err != nil {
		d.logger.Error(err, "Queues ignored") // Usable has validated them
	}
	d.queues.reportAt = now.Add(d.timing.InvalidQueue)
	d.observer.Queues(d.queues.names())
}
