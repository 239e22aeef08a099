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
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// queues is the tree of queues as the API describes it.
type queues struct {
	byName map[string]arbiter.Queue
	// unread is what is wrong with those that could not be read, by name.
	unread map[string]error
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

func newQueues() queues {
	return queues{byName: map[string]arbiter.Queue{}, unread: map[string]error{}, tree: []arbiter.Queue{defaultQueue}}
}

// readQueue reads a Queue from the store, and says whether the tree is another one now.
func (e *Engine) readQueue(name string) bool {
	q := &e.queues
	object := e.queueObject(name)
	before, known := q.byName[name]
	wasUnread := q.unread[name]
	delete(q.byName, name)
	delete(q.unread, name)
	if object == nil {
		e.complain("queue/"+name, nil, nil, "")
	} else if name != arbiter.Root {
		if read, err := queueOf(object); err != nil {
			q.unread[name] = err
		} else {
			q.byName[name] = read
		}
	}
	after, still := q.byName[name]
	return known != still || !reflect.DeepEqual(before, after) || fmt.Sprint(wasUnread) != fmt.Sprint(q.unread[name])
}

// queueObject is the object that describes a queue: Volcano's, or KAI's if there is none of
// Volcano's with the name.
func (e *Engine) queueObject(name string) *unstructured.Unstructured {
	if o := e.objects[dialect.Queues].Get(name); o != nil {
		return o
	}
	return e.objects[dialect.KAIQueues].Get(name)
}

func queueOf(o *unstructured.Unstructured) (arbiter.Queue, error) {
	if o.GroupVersionKind().Group == dialect.KAIQueues.Group {
		return dialect.KAIQueueOf(o)
	}
	return dialect.QueueOf(o)
}

// setQueues makes core's tree equal to what the API says. An invalid queue is left out
// and reported; the others count.
func (e *Engine) setQueues(now time.Time) {
	q := &e.queues
	list := []arbiter.Queue{}
	if _, ok := q.byName[arbiter.Default]; !ok {
		list = append(list, defaultQueue)
	}
	list = slices.AppendSeq(list, maps.Values(q.byName))
	q.tree, q.problems = arbiter.Usable(list)
	maps.Copy(q.problems, q.unread)
	if err := e.core.SetQueues(q.tree); err != nil {
		e.logger.Error(err, "Queues ignored") // Usable has validated them
	}
	q.reportAt = now.Add(e.timing.InvalidQueue)
	if e.copied {
		return
	}
	names := []string{arbiter.Root}
	for i := range q.tree {
		names = append(names, q.tree[i].Name)
	}
	metrics.SetQueues(names)
}

// reportQueues reports what is wrong with queues once they have had time to come.
func (e *Engine) reportQueues(now time.Time) {
	q := &e.queues
	if q.reportAt.IsZero() || now.Before(q.reportAt) {
		return
	}
	q.reportAt = time.Time{}
	known := slices.AppendSeq(slices.Collect(maps.Keys(q.byName)), maps.Keys(q.unread))
	slices.Sort(known)
	for _, name := range known {
		if object := e.queueObject(name); object != nil {
			e.complain("queue/"+name, queueRef(object), q.problems[name], "InvalidQueue")
		}
		if other := e.objects[dialect.KAIQueues].Get(name); other != nil && e.objects[dialect.Queues].Get(name) != nil {
			e.complain("queue/kai/"+name, queueRef(other), errSameName, "InvalidQueue")
		} else {
			e.complain("queue/kai/"+name, nil, nil, "")
		}
	}
}

// errSameName is reported on a KAI Queue whose name a Volcano Queue has.
var errSameName = fmt.Errorf("metadata.name: a Queue of %s has this name; it counts, and this one does not", dialect.Queues.Group)

func queueRef(o *unstructured.Unstructured) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}
