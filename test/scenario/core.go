package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// coreEngine is core's engine with nothing around it but the translation of objects:
// they are kept in maps, every change is followed by steps until nothing happens any
// more, and what they decide is done at once. Its clock moves only when a story says so.
type coreEngine struct {
	api *State
	now time.Time

	ledger *ledger.Ledger
	engine *engine.Engine
	work   *workload.Gangs
	facts  *coreFacts
	// pods and namespaces are the stores that the translation reads.
	pods, namespaces cache.Indexer
	groups           *cachetesting.FakeControllerSource
	watched          *watch.Optional[*unstructured.Unstructured]
	stop             func()
	// nodes are as core knows them, for records.
	nodes map[string]*model.Node
	// arrived are pods that the planner has heard of, contested those that were found to
	// hold devices of older ones.
	arrived, contested map[string]bool
}

// NewCore returns the engine that runs core alone.
func NewCore() Engine { return &coreEngine{stop: func() {}} }

func (c *coreEngine) Name() string            { return "core" }
func (c *coreEngine) Patience() time.Duration { return 0 }

// firstDay is when stories begin.
var firstDay = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)

// perObject is how far the clock moves with every object: enough to tell them apart.
const perObject = time.Millisecond

// Ask has nothing to ask: the engine knows of every object at once.
func (c *coreEngine) Ask(context.Context, *v1.Pod, func(string) bool) error { return nil }

func (c *coreEngine) Now() time.Time { return c.now }

// Tick moves the clock in steps short enough that nothing is passed over.
func (c *coreEngine) Tick(_ context.Context, d time.Duration) error {
	const step = time.Second
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(min(step, end.Sub(c.now)))
		if err := c.run(); err != nil {
			return err
		}
	}
	return nil
}

func (c *coreEngine) Reset(ctx context.Context) error {
	c.api, c.now = newState(), firstDay
	return c.start(ctx)
}

// start makes an engine that knows nothing.
func (c *coreEngine) start(ctx context.Context) error {
	c.stop()
	c.pods = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	c.namespaces = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c.nodes, c.arrived, c.contested = map[string]*model.Node{}, map[string]bool{}, map[string]bool{}
	c.groups = cachetesting.NewFakeControllerSource()
	var err error
	if c.watched, err = watch.New[*unstructured.Unstructured](c.groups, &unstructured.Unstructured{}, "", func(string) {}, func() {}); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	c.stop = stop
	go c.watched.Run(watching)
	if err := until(ctx, c.watched.Listed); err != nil {
		return err
	}
	reader := &workload.Reader{Namespaces: corelisters.NewNamespaceLister(c.namespaces), Levels: topology.DefaultLevels}
	for _, name := range []string{names.SchedulerName, names.VolcanoSchedulerName} {
		reader.Own(name, workload.Profile{Weights: score.DefaultWeights()})
	}
	c.work = workload.New(reader, corelisters.NewPodLister(c.pods), workload.Objects{dialect.PodGroups: c.watched})
	c.facts = &coreFacts{work: c.work, api: c.api}
	c.ledger = ledger.New()
	tree, err := arbiter.NewTree([]arbiter.Queue{defaultQueue}, nil)
	if err != nil {
		return err
	}
	options := engine.DefaultOptions()
	options.Facts = c.facts
	c.engine = engine.New(c.ledger, planner.New(c.ledger), tree, options)
	return nil
}

// tellCore tells the engine of an event.
func (c *coreEngine) tellCore(e engine.Event) engine.Outcome {
	return c.engine.Apply(c.now.UnixNano(), e)
}

// Restart makes an engine anew and shows it all objects, as a list would.
func (c *coreEngine) Restart(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.api.Namespaces)) {
		if err := c.namespaces.Add(c.api.Namespaces[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.api.Nodes)) {
		if err := c.syncNode(name); err != nil {
			return err
		}
	}
	if err := errors.Join(c.syncQueues(), c.syncQuotas()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.api.PodGroups)) {
		if err := c.syncGroup(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.api.Pods)) {
		if err := c.syncPod(c.api.Pods[name]); err != nil {
			return err
		}
	}
	return c.run()
}

func (c *coreEngine) Apply(_ context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		c.now = c.now.Add(perObject)
		if err := errors.Join(c.apply(object), c.run()); err != nil {
			return err
		}
	}
	return nil
}

func (c *coreEngine) apply(object metav1.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		before := c.api.Nodes[o.Name]
		c.api.Nodes[o.Name] = o.DeepCopy()
		if before != nil {
			c.tellCore(engine.NodeRulesChanged{Node: model.NodeID(o.Name)})
		}
		return c.syncNode(o.Name)
	case *v1alpha1.GPUNode:
		c.api.GPUNodes[o.Name] = o.DeepCopy()
		return c.syncNode(o.Name)
	case *v1.Pod:
		c.api.Pods[o.Name] = o.DeepCopy()
		return c.syncPod(c.api.Pods[o.Name])
	case *v1.Namespace:
		c.api.Namespaces[o.Name] = o.DeepCopy()
		return errors.Join(c.namespaces.Update(o.DeepCopy()), c.syncQuotas())
	case *policyv1.PodDisruptionBudget:
		c.api.Budgets[o.Name] = o.DeepCopy()
	case *unstructured.Unstructured:
		switch o.GetKind() {
		case kindQueue:
			c.api.Queues[o.GetName()] = o.DeepCopy()
			return c.syncQueues()
		case kindPodGroup:
			c.api.PodGroups[o.GetName()] = o.DeepCopy()
			return c.syncGroup(o.GetName())
		default:
			c.api.Topologies[o.GetName()] = o.DeepCopy()
			return c.syncNode(o.GetName())
		}
	}
	return nil // PriorityClasses: their number is on the pod
}

func (c *coreEngine) Delete(_ context.Context, objects ...metav1.Object) error {
	for _, object := range objects {
		c.now = c.now.Add(perObject)
		if err := errors.Join(c.remove(object), c.run()); err != nil {
			return err
		}
	}
	return nil
}

func (c *coreEngine) remove(object metav1.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		delete(c.api.Nodes, o.Name)
		return c.syncNode(o.Name)
	case *v1alpha1.GPUNode:
		delete(c.api.GPUNodes, o.Name)
		return c.syncNode(o.Name)
	case *v1.Pod:
		delete(c.api.Pods, o.Name)
		return c.syncPod(o)
	case *v1.Namespace:
		delete(c.api.Namespaces, o.Name)
		return errors.Join(c.namespaces.Delete(o), c.syncQuotas())
	case *policyv1.PodDisruptionBudget:
		delete(c.api.Budgets, o.Name)
	case *unstructured.Unstructured:
		switch o.GetKind() {
		case kindQueue:
			delete(c.api.Queues, o.GetName())
			return c.syncQueues()
		case kindPodGroup:
			delete(c.api.PodGroups, o.GetName())
			return c.syncGroup(o.GetName())
		default:
			delete(c.api.Topologies, o.GetName())
			return c.syncNode(o.GetName())
		}
	}
	return nil
}

// Settle has nothing to wait for, and checks the ledger instead.
func (c *coreEngine) Settle(context.Context) error {
	c.warnOfQueues()
	rebuilt, err := c.api.LedgerWith(c.engine.Nodes.Standing)
	if err != nil {
		return err
	}
	if was, now := c.ledger.String(), rebuilt.String(); was != now {
		return fmt.Errorf("the ledger is not what the objects say:\n%s\nrebuilt:\n%s", was, now)
	}
	return errors.Join(c.engine.Nodes.Audit(), c.api.checkWaiting(rebuilt))
}

func (c *coreEngine) Observe(context.Context) (*State, error) {
	out := c.api.shallow()
	for name, pod := range c.api.Pods {
		out.Pods[name] = pod.DeepCopy()
	}
	out.Warnings = slices.Clone(c.api.Warnings)
	return out, nil
}
