package scenario

import (
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/binding"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// goneBy is how long after its grace period a pod is still expected to go.
const goneBy = 10 * time.Minute

// maxSteps ends a story in which steps go on without end.
const maxSteps = 1000

// run steps the engine until nothing happens any more, does what it decides, and writes
// down why pods wait.
func (c *coreEngine) run() error {
	for range maxSteps {
		c.work.Due(c.now)
		if err := c.describeChanged(); err != nil {
			return err
		}
		plan := c.engine.Step(c.now.UnixNano())
		for _, s := range plan.Starts {
			for _, p := range s.Plan.Placements {
				if err := c.bind(p); err != nil {
					return err
				}
			}
		}
		evicted, err := c.evictAll(plan.Evicts)
		if err != nil {
			return err
		}
		if len(plan.Starts) > 0 || evicted || plan.More {
			continue
		}
		if unsure := c.tell(); !unsure {
			return nil
		}
	}
	return errors.New("the engine does not come to rest")
}

// noPlace: starts are carried out at once, so that no pod is on its way to a place.
func noPlace(model.HolderID) bool { return false }

// describeChanged tells core what is new about gangs.
func (c *coreEngine) describeChanged() error {
	var gangs, refused []engine.Gang
	for _, id := range c.work.Changed() {
		if g, there := c.work.Describe(id, c.now, noPlace); there {
			gangs = append(gangs, g)
		} else {
			c.tellCore(engine.Withdrawn{Gang: id})
		}
	}
	for _, g := range gangs {
		if c.tellCore(engine.Submitted{Gang: g}).Err != nil { // a member has to leave another gang first
			refused = append(refused, g)
		}
	}
	for _, g := range refused {
		if err := c.tellCore(engine.Submitted{Gang: g}).Err; err != nil {
			return err
		}
	}
	for _, g := range gangs {
		for _, m := range c.work.Pods(g.ID) {
			if m.Leaving() {
				c.tellCore(engine.Leaving{Holder: model.HolderID(m.Pod.UID), Until: m.Pod.DeletionTimestamp.Add(goneBy).UnixNano()})
			}
		}
	}
	return nil
}

// bind writes the decision on the pod, and counts it as anyone would who reads the pod.
func (c *coreEngine) bind(p gang.Placement) error {
	m := c.work.Member(p.Holder)
	pod := c.api.Pods[m.Pod.Name].DeepCopy()
	annotations, err := binding.Annotations(pod, &kubeengine.Cycle{
		Release: engine.Release{Node: c.nodes[string(p.Node)], Grant: p.Grant}, Request: m.Request, Queue: c.engine.Gangs.QueueOf(p.Holder),
	})
	if err != nil {
		return err
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, annotations)
	pod.Spec.NodeName = string(p.Node)
	pod.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.now),
	}}
	c.api.Pods[pod.Name] = pod
	return c.syncPod(pod)
}

// evictAll evicts victims, those first that a budget protects: if one may not go, the
// others stay.
func (c *coreEngine) evictAll(evicts []engine.Evict) (evicted bool, err error) {
	for _, x := range evicts {
		var pods []*v1.Pod
		for _, h := range x.Members {
			if m := c.work.Member(h); m != nil {
				pods = append(pods, c.api.Pods[m.Pod.Name])
			}
		}
		slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return len(c.api.budgetsOf(b)) - len(c.api.budgetsOf(a)) })
		for _, pod := range pods {
			if !c.api.spend(pod) {
				c.tellCore(engine.EvictionRefused{Holder: model.HolderID(pod.UID)})
				break
			}
			evicted = true
			if err := c.endGracefully(pod); err != nil {
				return evicted, err
			}
		}
	}
	return evicted, nil
}

// spend uses one disruption of each of a pod's budgets, as the API server does; false
// when one has none left.
func (s *State) spend(pod *v1.Pod) bool {
	list := s.budgetsOf(pod)
	for _, name := range list {
		if s.Budgets[name].Status.DisruptionsAllowed < 1 {
			return false
		}
	}
	for _, name := range list {
		s.Budgets[name].Status.DisruptionsAllowed--
	}
	return true
}

// tell writes into conditions why pods wait. It says whether it had to look up which
// members have succeeded: then there is more to decide.
func (c *coreEngine) tell() (lookedUp bool) {
	for _, name := range slices.Sorted(maps.Keys(c.api.Pods)) {
		pod := c.api.Pods[name]
		id, known := c.engine.Gangs.Of(model.HolderID(pod.UID))
		if !waits(pod) || !known {
			continue
		}
		why := c.engine.Reasons.Why(id).Anonymous() // as pods are told
		if !why.Is() {
			continue
		}
		if why.Code == explain.Members {
			if l, unsure := c.work.Unsure(id); unsure {
				var pods []v1.Pod
				for _, p := range c.api.Pods {
					if p.Namespace == l.Namespace {
						pods = append(pods, *p)
					}
				}
				c.work.Succeeded(l, pods, true)
				lookedUp = true
				continue
			}
		}
		pod = pod.DeepCopy()
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: why.Condition(), Message: why.String(), LastTransitionTime: metav1.NewTime(c.now),
		}}
		c.api.Pods[name] = pod
	}
	return lookedUp
}
