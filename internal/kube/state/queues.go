package state

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/dispatch"
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
	}
	complain := c.complainOnce("queue/"+name, problem)
	c.mu.Unlock()
	c.kick()
	if complain && object != nil {
		c.report(&v1.ObjectReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: name, UID: object.GetUID()}, "InvalidQueue", problem.Error())
	}
}

// syncOwner looks again at the pods of a PodGroup, Job, JobSet or RayCluster that
// changed: it says how many of them belong together.
func (c *Cluster) syncOwner(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods, _ := c.pods.List(labels.Everything())
	for _, p := range pods {
		m, err := dialect.MembershipOf(p)
		if err != nil || m.PodGroup != key && (m.Owner.Name == "" || p.Namespace+"/"+m.Owner.Name != key) {
			continue
		}
		c.trackPod(p)
	}
}

// groupSays adds what a PodGroup says of a gang.
func (c *Cluster) groupSays(key string, g *dispatch.Gang, minOf map[string]int) {
	object := c.objects[dialect.PodGroups].get(key)
	if object == nil {
		return
	}
	said, _ := dialect.GroupOf(object) // what makes no sense counts as not said
	g.Min = said.Min
	maps.Copy(minOf, said.MinTask)
	if said.Queue != "" {
		g.Queue = said.Queue
	}
	if level, ok := c.Levels().Find(said.Level); ok {
		g.Require = level
	}
	g.Submitted = object.GetCreationTimestamp().UnixNano()
}

// ownerSize is how many pods a pod's controller runs together.
func (c *Cluster) ownerSize(namespace string, m *membership) int {
	kind, ok := map[string]*optional[*unstructured.Unstructured]{
		"Job": c.objects[dialect.Jobs], "JobSet": c.objects[dialect.JobSets], "RayCluster": c.objects[dialect.RayClusters],
	}[m.Owner.Kind]
	if !ok {
		return 0
	}
	object := kind.get(namespace + "/" + m.Owner.Name)
	if object == nil {
		return 0
	}
	return dialect.SizeOf(object)
}
