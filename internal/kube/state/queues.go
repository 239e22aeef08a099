package state

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/dispatch"
	"github.com/tangram-dev/tangram/core/model"
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

// syncOwner looks again at the pods of a PodGroup, Job, JobSet or RayCluster that
// changed: it says how many of them belong together.
func (c *Cluster) syncOwner(kind schema.GroupVersionResource, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.gangs.owned[kind.Resource+"/"+key] { // each for itself
		c.trackAgain(p)
	}
}

// trackAgain looks at the latest of a pod.
func (c *Cluster) trackAgain(pod *v1.Pod) {
	now, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil && now.Spec.NodeName == "" {
		return // it is gone, and forgotten by whoever hears of that
	}
	before := c.gangs.member[model.HolderID(pod.UID)]
	c.trackPod(now)
	if now.Spec.NodeName == "" && before != c.gangs.member[model.HolderID(pod.UID)] {
		c.gangs.awake[model.HolderID(pod.UID)] = now // it may be free now
		c.kick()
	}
}

// lookAgain looks at a pod once more when its owner must have been seen.
func (c *Cluster) lookAgain(pod *v1.Pod) {
	time.AfterFunc(time.Until(pod.CreationTimestamp.Add(ownerPatience))+time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.trackAgain(pod)
	})
}

// ownerPatience is how long after a pod's creation its owner may be unknown here: it
// was there before the pod, but news of them come on different ways. An owner that is
// still unknown is gone.
const ownerPatience = 5 * time.Second

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

// ownerKinds are owners that say how many pods run together.
var ownerKinds = map[string]schema.GroupVersionResource{
	"Job": dialect.Jobs, "JobSet": dialect.JobSets, "RayCluster": dialect.RayClusters,
}

// ownerSize is how many pods a pod's controller runs together; not known while the
// controller has not been seen. It takes no lock.
func (c *Cluster) ownerSize(pod *v1.Pod, m *membership) (size int, known bool) {
	kind := c.objects[ownerKinds[m.Owner.Kind]]
	if kind == nil || kind.absent.Load() {
		return 0, true
	}
	if object := kind.get(pod.Namespace + "/" + m.Owner.Name); object != nil {
		return dialect.SizeOf(object), true
	}
	return 0, time.Since(pod.CreationTimestamp.Time) > ownerPatience
}
