package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// coreEngine is core with nothing around it: objects are kept in a map, and what
// a scheduler would do with a pod is done at once, by the planner.
type coreEngine struct {
	api     *State
	ledger  *ledger.Ledger
	planner *planner.Planner
	// tried is when a waiting pod was last looked at, by a count of looks: of
	// pods that wait, those looked at longer ago go first.
	tried map[string]int
	looks int
}

// NewCore returns the engine that runs core alone.
func NewCore() Engine { return &coreEngine{} }

func (c *coreEngine) Name() string            { return "core" }
func (c *coreEngine) Patience() time.Duration { return 0 }

func (c *coreEngine) Reset(context.Context) error {
	*c = coreEngine{api: newState(), ledger: ledger.New(), tried: map[string]int{}}
	c.planner = planner.New(c.ledger)
	return nil
}

func (c *coreEngine) Apply(_ context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		switch o := object.(type) {
		case *v1.Node:
			if len(o.Spec.Taints) > 0 || o.Spec.Unschedulable {
				return fmt.Errorf("node %s: taints and cordons are kube-scheduler's to judge, so the file needs # engines: plugin cluster", o.Name)
			}
			c.api.Nodes[o.Name] = o.DeepCopy()
			if err := c.syncNode(o.Name); err != nil {
				return err
			}
		case *v1alpha1.GPUNode:
			c.api.GPUNodes[o.Name] = o.DeepCopy()
			if err := c.syncNode(o.Name); err != nil {
				return err
			}
		case *unstructured.Unstructured:
			c.api.Topologies[o.GetName()] = o.DeepCopy()
			if err := c.syncNode(o.GetName()); err != nil {
				return err
			}
		case *v1.Pod:
			old := c.api.Pods[o.Name]
			c.api.Pods[o.Name] = o.DeepCopy()
			if old == nil && waits(o) {
				if err := c.schedule(o.Name); err != nil {
					return err
				}
				break // somebody may wait for it
			}
			c.syncPod(o)
		default: // PriorityClasses: their number is on the pod
			continue
		}
		if err := c.wake(); err != nil {
			return err
		}
	}
	return nil
}

func (c *coreEngine) Delete(_ context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		switch o := object.(type) {
		case *v1.Node:
			delete(c.api.Nodes, o.Name)
			c.ledger.RemoveNode(model.NodeID(o.Name))
		case *v1alpha1.GPUNode:
			delete(c.api.GPUNodes, o.Name)
			if err := c.syncNode(o.Name); err != nil {
				return err
			}
		case *unstructured.Unstructured:
			delete(c.api.Topologies, o.GetName())
			if err := c.syncNode(o.GetName()); err != nil {
				return err
			}
		case *v1.Pod:
			delete(c.api.Pods, o.Name)
			delete(c.tried, o.Name)
			c.syncPod(o)
		}
		if err := c.wake(); err != nil {
			return err
		}
	}
	return nil
}

// Settle has nothing to wait for, and checks the ledger instead.
func (c *coreEngine) Settle(context.Context) error {
	rebuilt, err := c.api.Ledger()
	if err != nil {
		return err
	}
	if was, now := c.ledger.String(), rebuilt.String(); was != now {
		return fmt.Errorf("the ledger is not what the objects say:\n%s\nrebuilt:\n%s", was, now)
	}
	return errors.Join(c.ledger.Audit(), c.api.checkWaiting(rebuilt))
}

func (c *coreEngine) Observe(context.Context) (*State, error) {
	out := newState()
	maps.Copy(out.Nodes, c.api.Nodes)
	maps.Copy(out.GPUNodes, c.api.GPUNodes)
	maps.Copy(out.Topologies, c.api.Topologies)
	for name, pod := range c.api.Pods {
		out.Pods[name] = pod.DeepCopy()
	}
	out.Warnings = slices.Clone(c.api.Warnings)
	return out, nil
}

// Restart rebuilds the ledger and looks at every waiting pod again.
func (c *coreEngine) Restart(context.Context) error {
	var err error
	if c.ledger, err = c.api.Ledger(); err != nil {
		return err
	}
	c.planner = planner.New(c.ledger)
	for _, name := range c.waiting() {
		if err := c.schedule(name); err != nil {
			return err
		}
	}
	return nil
}

// syncNode makes the ledger's node equal to the objects.
func (c *coreEngine) syncNode(name string) error {
	node := c.api.Nodes[name]
	if node == nil {
		return nil // a GPUNode alone is no node
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
	if err := c.ledger.SetNode(inv); err != nil {
		return err
	}
	c.ledger.SetTelemetry(inv.ID, dialect.Telemetry(inv, gn))
	c.warnContested(name)
	return nil
}

// warnContested says of each pod once that its record cannot be honoured.
func (c *coreEngine) warnContested(node string) {
	for _, contest := range c.ledger.Contested(model.NodeID(node)) {
		for name, pod := range c.api.Pods {
			said := slices.ContainsFunc(c.api.Warnings, func(w Warning) bool { return w.Name == name && w.Reason == dialect.ContestedRecord })
			if string(pod.UID) == dialect.UIDOf(contest.Holder) && !said {
				c.warn(Warning{"Pod", name, dialect.ContestedRecord, dialect.Contested(contest)})
			}
		}
	}
}

// syncPod makes the ledger's claims of a pod equal to the object.
func (c *coreEngine) syncPod(pod *v1.Pod) {
	if c.api.Pods[pod.Name] == nil || ended(pod) {
		for _, h := range dialect.Holders(pod) {
			c.ledger.Drop(h)
		}
		return
	}
	if pod.Spec.NodeName == "" {
		return
	}
	claims, problem := dialect.Claims(pod)
	if problem != nil {
		c.warn(Warning{"Pod", pod.Name, "InvalidRecord", problem.Error()})
	}
	for _, claim := range claims {
		c.ledger.Put(model.NodeID(pod.Spec.NodeName), claim)
	}
	c.warnContested(pod.Spec.NodeName)
}

// warn says each thing once.
func (c *coreEngine) warn(w Warning) {
	if !slices.Contains(c.api.Warnings, w) {
		c.api.Warnings = append(c.api.Warnings, w)
	}
}

// waiting lists pods without a node, in the order a queue would hand them out:
// priority, then who was looked at longest ago.
func (c *coreEngine) waiting() []string {
	var out []string
	for name, pod := range c.api.Pods {
		if waits(pod) {
			out = append(out, name)
		}
	}
	priority := func(name string) int32 {
		if p := c.api.Pods[name].Spec.Priority; p != nil {
			return *p
		}
		return 0
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), cmp.Compare(c.tried[a], c.tried[b]), cmp.Compare(a, b))
	})
	return out
}

// wake looks again at the waiting pods that fit after a change. Those that do not
// are left alone, and their last reason stands: that is what queueing hints do.
// Only an empty cluster is no reason to kube-scheduler but an error, after which
// it tries again.
func (c *coreEngine) wake() error {
	for {
		fitting := c.fitting()
		for _, name := range fitting {
			if err := c.schedule(name); err != nil {
				return err
			}
		}
		if len(fitting) == 0 { // who was placed may be company to others
			return nil
		}
	}
}

// fitting lists the waiting pods that fit now.
func (c *coreEngine) fitting() []string {
	var fitting []string
	for _, name := range c.waiting() {
		if !ourPod(c.api.Pods[name]) {
			continue
		}
		if last := scheduled(c.api.Pods[name]); last != nil && last.Message == emptyCluster && len(c.api.Nodes) > 0 {
			fitting = append(fitting, name)
			continue
		}
		r, err := dialect.Request(c.api.Pods[name])
		if err != nil || r == nil {
			continue
		}
		if place.Fits(c.ledger, r) {
			fitting = append(fitting, name)
		}
	}
	return fitting
}

// ourPod says whether a pod is for one of our profiles.
func ourPod(pod *v1.Pod) bool {
	return pod.Spec.SchedulerName == names.SchedulerName || pod.Spec.SchedulerName == names.VolcanoSchedulerName
}

// schedule gives a pod the best node, or writes down why there is none.
func (c *coreEngine) schedule(name string) error {
	pod := c.api.Pods[name]
	if !ourPod(pod) {
		return nil
	}
	c.looks++
	c.tried[name] = c.looks
	if len(c.api.Nodes) == 0 { // kube-scheduler asks nobody then
		c.condition(pod, v1.ConditionFalse, emptyCluster)
		return nil
	}
	r, err := dialect.Request(pod)
	if err != nil {
		c.condition(pod, v1.ConditionFalse, err.Error())
		return nil
	}
	if what := beyondCore(pod, r); what != "" {
		return fmt.Errorf("pod %s: %s is kube-scheduler's to judge, so the file needs # engines: plugin cluster", name, what)
	}
	if best, ok := c.planner.Best(r, score.DefaultWeights()); ok {
		return c.bind(pod, r, best)
	}
	reasons := c.planner.Reasons(r)
	c.condition(pod, v1.ConditionFalse, reasons.String())
	return nil
}

// beyondCore names what only kube-scheduler can judge about a pod; "" when there
// is nothing. CPU and memory are not looked at: stories give nodes enough.
func beyondCore(pod *v1.Pod, r *model.Request) string {
	if r == nil {
		return "where a pod without GPUs goes"
	}
	known := func(key string) bool {
		return slices.ContainsFunc(r.Attributes, func(w model.Want) bool { return w.Key == key })
	}
	for key := range pod.Spec.NodeSelector {
		if !known(key) {
			return "the label " + key
		}
	}
	if pod.Spec.Affinity == nil {
		return ""
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	if len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		return "a preference"
	}
	for _, e := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions {
		if e.Operator != v1.NodeSelectorOpIn || !known(e.Key) {
			return "the label " + e.Key
		}
	}
	return ""
}

// bind writes the decision on the pod, and counts it as anybody would who reads
// the pod.
func (c *coreEngine) bind(pod *v1.Pod, r *model.Request, best planner.Candidate) error {
	v, ok := c.ledger.View(best.Node)
	if !ok {
		return fmt.Errorf("node %s was proposed and is not there", best.Node)
	}
	text, err := record.Encode(dialect.Record(r, v.Node, best.Grant))
	if err != nil {
		return err
	}
	pod.Spec.NodeName = string(best.Node)
	pod.Annotations[names.AnnotationDevices] = text
	c.condition(pod, v1.ConditionTrue, "")
	c.syncPod(pod)
	return nil
}

func (c *coreEngine) condition(pod *v1.Pod, status v1.ConditionStatus, message string) {
	pod.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: status, Message: message, LastTransitionTime: metav1.Now(),
	}}
}
