package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// coreFacts answers core's questions from the objects of a story.
type coreFacts struct {
	work *workload.Gangs
	api  *State
}

var _ engine.Facts = &coreFacts{}

func (f *coreFacts) May(s engine.Shape, id model.NodeID) *explain.Refusal {
	return kubeengine.May(f.work.Rules(s), f.api.Nodes[string(id)])
}

func (f *coreFacts) Apart(a, b engine.Shape) string {
	x, y := f.work.Rules(a), f.work.Rules(b)
	if x == nil || y == nil {
		return ""
	}
	return x.Apart(y)
}

func (f *coreFacts) Budgets(h model.HolderID) (out []engine.Budget) {
	m := f.work.Member(h)
	if m == nil {
		return nil
	}
	for _, name := range f.api.budgetsOf(m.Pod) {
		out = append(out, engine.Budget{Name: name, Allowed: int(f.api.Budgets[name].Status.DisruptionsAllowed)})
	}
	return out
}

// budgetsOf names the disruption budgets of a pod, sorted.
func (s *State) budgetsOf(pod *v1.Pod) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Budgets)) {
		b := s.Budgets[name]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, name)
		}
	}
	return out
}

// syncNode makes core's node equal to the objects.
func (c *coreEngine) syncNode(name string) error {
	node, id := c.api.Nodes[name], model.NodeID(name)
	if node == nil { // a GPUNode alone is no node
		delete(c.nodes, name)
		if c.tellCore(engine.NodeGone{Node: id}).Changed {
			c.tellCore(engine.FleetCounted{})
		}
		return nil
	}
	gn := c.api.GPUNodes[name]
	inv, problem := dialect.Describe(node, dialect.Facts{GPUNode: gn, Topology: c.api.Topologies[name]})
	if problem != nil {
		kind := "Node"
		if gn != nil {
			kind = "GPUNode"
		}
		c.warn(Warning{kind, name, "InvalidInventory", problem.Error()})
	}
	set := c.tellCore(engine.NodeSet{Node: inv, Telemetry: dialect.Telemetry(inv, gn)})
	if set.Err != nil {
		return set.Err
	}
	if set.Changed {
		c.tellCore(engine.FleetCounted{})
	}
	c.nodes[name] = inv
	return c.heal(name)
}

// heal reports pods whose records name devices that others had first, each once, and
// deletes those of this scheduler's whose devices it gave to others itself.
func (c *coreEngine) heal(node string) error {
	for _, contest := range c.engine.Nodes.Contested(model.NodeID(node)) {
		pod := c.podOf(contest.Holder)
		if pod == nil || c.contested[string(pod.UID)] {
			continue
		}
		c.contested[string(pod.UID)] = true
		message := dialect.Contested(contest)
		if older := c.podOf(c.engine.Nodes.HolderOf(model.NodeID(node), contest.Index)); older != nil {
			message += fmt.Sprintf("; pod %s/%s holds it", older.Namespace, older.Name)
		}
		c.warn(Warning{"Pod", pod.Name, dialect.ContestedRecord, message})
		if contest.Certain && pod.DeletionTimestamp == nil && ourPod(pod) {
			if err := c.endGracefully(pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// podOf is the pod of a holder; nil when there is none.
func (c *coreEngine) podOf(h model.HolderID) *v1.Pod {
	for _, pod := range c.api.Pods {
		if string(pod.UID) == dialect.UIDOf(h) {
			return pod
		}
	}
	return nil
}

// ourPod says whether a pod is for one of our profiles.
func ourPod(pod *v1.Pod) bool {
	return pod.Spec.SchedulerName == names.SchedulerName || pod.Spec.SchedulerName == names.VolcanoSchedulerName
}

// endGracefully does what the API server does with a deletion.
func (c *coreEngine) endGracefully(pod *v1.Pod) error {
	if leaves := terminating(pod, c.now); leaves != nil {
		c.api.Pods[pod.Name] = leaves
		return c.syncPod(leaves)
	}
	delete(c.api.Pods, pod.Name)
	return c.syncPod(pod)
}

// syncPod makes what core knows of a pod equal to the object.
func (c *coreEngine) syncPod(pod *v1.Pod) error {
	if c.api.Pods[pod.Name] == nil || ended(pod) {
		if err := c.pods.Delete(pod); err != nil {
			return err
		}
		c.tellCore(engine.Ended{Holders: dialect.Holders(pod)})
		c.work.Forget(pod, c.now)
		delete(c.arrived, string(pod.UID))
		delete(c.contested, string(pod.UID))
		return nil
	}
	if err := c.pods.Update(pod); err != nil {
		return err
	}
	if !c.arrived[string(pod.UID)] {
		c.arrived[string(pod.UID)] = true
		if r, err := dialect.Request(pod); err == nil && r != nil {
			c.tellCore(engine.Arrived{Request: r})
		}
	}
	c.work.Set(pod, c.now)
	c.work.Freed()
	if pod.Spec.NodeName == "" {
		return beyondCore(pod)
	}
	node := model.NodeID(pod.Spec.NodeName)
	claims, problem := dialect.Claims(pod)
	before := c.engine.Nodes.Overbooked(node)
	c.tellCore(engine.Bound{Node: node, Holders: dialect.Holders(pod), Claims: claims})
	over := c.engine.Nodes.Overbooked(node)
	switch {
	case problem != nil:
		c.warn(Warning{"Pod", pod.Name, "InvalidRecord", problem.Error()})
	case over > before:
		c.warn(Warning{"Pod", pod.Name, "OverbookedNode", fmt.Sprintf("node %s is overbooked: the pods bound to it ask for %d more GPUs than it has", node, over)})
	}
	return c.heal(pod.Spec.NodeName)
}

// beyondCore is an error about a pod that only kube-scheduler can place: one that is not
// the engine's, or that prefers nodes and so needs scores of all.
func beyondCore(pod *v1.Pod) error {
	what := ""
	r, err := dialect.Request(pod)
	m, invalid := dialect.MembershipOf(pod)
	switch {
	case !ourPod(pod):
	case err == nil && r == nil && invalid == nil && m.Key == "":
		what = "where a pod without GPUs goes"
	case pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil && len(pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0:
		what = "a preference"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("pod %s: %s is kube-scheduler's to judge, so the file needs # engines: plugin cluster", pod.Name, what)
}

// warn says each thing once.
func (c *coreEngine) warn(w Warning) {
	if !slices.Contains(c.api.Warnings, w) {
		c.api.Warnings = append(c.api.Warnings, w)
	}
}

// defaultQueue is there without an object.
var defaultQueue = arbiter.Queue{Name: arbiter.Default, Weight: 1, Reclaimable: true, Order: arbiter.Priority}

// usableQueues are the queues of a state without those that are invalid, and what is
// wrong with these.
func (s *State) usableQueues() (usable []arbiter.Queue, problems map[string]error) {
	var list []arbiter.Queue
	invalid := map[string]error{}
	if s.Queues[arbiter.Default] == nil {
		list = append(list, defaultQueue)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		q, err := dialect.QueueOf(s.Queues[name])
		if err != nil {
			invalid[name] = err
			continue
		}
		list = append(list, q)
	}
	usable, problems = arbiter.Usable(list)
	maps.Copy(problems, invalid)
	return usable, problems
}

// syncQueues makes the tree equal to the Queues.
func (c *coreEngine) syncQueues() error {
	usable, _ := c.api.usableQueues()
	return c.tellCore(engine.QueuesSet{Queues: usable}).Err
}

// warnOfQueues reports invalid Queues, once they have all come.
func (c *coreEngine) warnOfQueues() {
	_, problems := c.api.usableQueues()
	for name, problem := range problems {
		c.warn(Warning{kindQueue, name, "InvalidQueue", problem.Error()})
	}
}

// syncQuotas makes the namespaces' quotas equal to their annotations.
func (c *coreEngine) syncQuotas() error {
	var list []arbiter.Quota
	for _, name := range slices.Sorted(maps.Keys(c.api.Namespaces)) {
		hard, problem := dialect.QuotaOf(c.api.Namespaces[name])
		if problem != nil {
			c.warn(Warning{"Namespace", name, "InvalidQuota", problem.Error()})
		}
		if hard != nil {
			list = append(list, arbiter.Quota{Namespace: name, Hard: hard})
		}
	}
	return c.tellCore(engine.QuotasSet{Quotas: list}).Err
}

// syncGroup shows a PodGroup to the translation, which watches them, and waits until it
// has seen it.
func (c *coreEngine) syncGroup(name string) error {
	now := c.api.PodGroups[name]
	key := metav1.NamespaceDefault + "/" + name
	seen := c.watched.Get(key)
	switch {
	case now == nil && seen != nil:
		c.groups.Delete(seen.DeepCopy())
	case now != nil && seen == nil:
		c.groups.Add(now.DeepCopy())
	case now != nil:
		c.groups.Modify(now.DeepCopy())
	}
	err := until(context.Background(), func() bool {
		seen := c.watched.Get(key)
		return (seen == nil) == (now == nil) && (now == nil || fmt.Sprint(seen.Object["spec"]) == fmt.Sprint(now.Object["spec"]))
	})
	c.work.OwnerChanged(dialect.PodGroups, key, c.now)
	return err
}
