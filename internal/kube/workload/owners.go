package state

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// syncOwner looks again at the pods of a PodGroup, Job, JobSet or RayCluster that
// changed: it says how many of them belong together.
func (c *Cluster) syncOwner(kind schema.GroupVersionResource, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.gangs.owned[ownerKey(kind, key)] { // each for itself
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
	if after := c.gangs.member[model.HolderID(pod.UID)]; now.Spec.NodeName == "" && (before != after || after == "") {
		c.gangs.awake[model.HolderID(pod.UID)] = now // it may be free now, or has to hear what is wrong
		c.kick()
	}
}

// lookAgain looks at a pod once more when its owner must have been seen.
func (c *Cluster) lookAgain(pod *v1.Pod) {
	if time.Since(pod.CreationTimestamp.Time) > ownerPatience {
		return
	}
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

// ownerKey finds the pods of an owner.
func ownerKey(kind schema.GroupVersionResource, name string) string {
	return kind.GroupResource().String() + "/" + name
}

// groupSays adds what a PodGroup says of a gang.
func (c *Cluster) groupSays(m *membership, g *engine.Gang, minOf map[string]int) {
	object := c.objects[m.Groups].get(m.PodGroup)
	if object == nil {
		return
	}
	said, _ := dialect.GroupOf(object, c.Levels()) // told to those who wait; who runs may go on
	g.Min = said.Min
	maps.Copy(minOf, said.MinTask)
	if said.Queue != "" {
		g.Queue = said.Queue
	}
	if said.Require.Name != "" {
		g.Require = said.Require
	}
	if class := c.objects[dialect.Priorities].get(said.Priority); class != nil {
		value, _, _ := unstructured.NestedInt64(class.Object, "value")
		g.Priority = int32(value)
	}
	g.Submitted = object.GetCreationTimestamp().UnixNano()
}

// syncPriority: PodGroups may name a class that is new or gone.
func (c *Cluster) syncPriority(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.gangs.groups {
		if g.real {
			c.touch(id)
		}
	}
	c.kick()
}

// groupOf says whether what the PodGroup a pod names says is known, if it names one;
// what is wrong, if that will not come by itself. Without PodGroups here nobody waits
// for them. It takes no lock.
func (c *Cluster) groupOf(pod *v1.Pod, m *membership) (known bool, problem string) {
	kind := c.objects[m.Groups]
	if m.PodGroup == "" || kind == nil || kind.absent.Load() {
		return true, ""
	}
	if object := kind.get(m.PodGroup); object != nil {
		said, err := dialect.GroupOf(object, c.Levels())
		if err != nil {
			return false, fmt.Sprintf("PodGroup %s: %v", m.PodGroup, err)
		}
		if said.Min == 0 { // each of its pods for itself
			m.Key, m.PodGroup = "", ""
		}
		return true, ""
	}
	if time.Since(pod.CreationTimestamp.Time) <= ownerPatience || !kind.handler.HasSynced() {
		return false, ""
	}
	field := "metadata.annotations[" + names.AnnotationKubeGroup + "]"
	if m.Groups == dialect.KubeGroups {
		field = "spec.schedulingGroup.podGroupName"
	}
	return false, fmt.Sprintf("%s: PodGroup %q does not exist", field, m.PodGroup)
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
