package state

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Reporter tells people about objects that make no sense. It must not block.
type Reporter func(object *v1.ObjectReference, reason, message string)

// Cluster is the ledger behind a lock, fed by informers. All methods are safe
// for concurrent use.
type Cluster struct {
	pods  corelisters.PodLister
	nodes corelisters.NodeLister
	// namespaces are not waited for: they only say what nobody else does, and who may
	// not read them (an extender with few rights) does without.
	namespaces corelisters.NamespaceLister
	budgets    policylisters.PodDisruptionBudgetLister
	gpuNodes   *optional[*v1alpha1.GPUNode]
	// topologies are NodeResourceTopologies; nil when nobody looks.
	topologies *optional[*unstructured.Unstructured]
	synced     []cache.InformerSynced
	levels     atomic.Pointer[topology.Levels]
	everyNode  func()

	mu        sync.RWMutex
	ledger    *ledger.Ledger
	planner   *planner.Planner
	gangs     *gangs
	queues    queues
	quotas    map[string]arbiter.Quota // by namespace
	standings standings
	// options are the engine's, as configured.
	options engine.Options
	// runtimes is what was learned of how long gangs run.
	runtimes arbiter.Runtimes
	// podOf finds a pod that makes a request, to ask Kubernetes' own rules.
	podOf map[*model.Request]*memberPod
	// objects say something about gangs and queues.
	objects map[schema.GroupVersionResource]*optional[*unstructured.Unstructured]
	kicked  chan struct{}
	// known are pods whose arrival the planner has heard of.
	known map[model.HolderID]bool
	waits map[model.HolderID]waiting
	// seekers are those of them that must be with others.
	seekers map[model.HolderID]bool
	// complained holds what was last reported about an object, so that each
	// complaint is made once.
	complained map[string]string
	// contested are the UIDs of pods of whom it was reported that their record cannot
	// be honoured.
	contested map[string]bool

	logger  klog.Logger
	report  Reporter
	changed func(*Cluster, model.NodeID)
}

// New wires a cluster to the informers of a scheduler and to sources of objects it
// does not know. The informers are started by the scheduler, the watches on the
// sources at once. changed is called, without any lock held, after something happened
// on a node for which kube-scheduler does not requeue pods: an object of a source
// changed what is known of it, or somebody came whom a waiting pod must be with.
func New(ctx context.Context, factory informers.SharedInformerFactory, from Sources, report Reporter, changed func(*Cluster, model.NodeID)) (*Cluster, error) {
	c := &Cluster{
		pods:       factory.Core().V1().Pods().Lister(),
		nodes:      factory.Core().V1().Nodes().Lister(),
		namespaces: factory.Core().V1().Namespaces().Lister(),
		ledger:     ledger.New(),
		waits:      map[model.HolderID]waiting{},
		known:      map[model.HolderID]bool{},
		seekers:    map[model.HolderID]bool{},
		complained: map[string]string{},
		contested:  map[string]bool{},
		gangs:      newGangs(),
		queues:     queues{byName: map[string]arbiter.Queue{}, unread: map[string]error{}, tree: []arbiter.Queue{defaultQueue}},
		quotas:     map[string]arbiter.Quota{},
		options:    engine.DefaultOptions(),
		logger:     klog.FromContext(ctx),
		budgets:    factory.Policy().V1().PodDisruptionBudgets().Lister(),
		podOf:      map[*model.Request]*memberPod{},
		objects:    map[schema.GroupVersionResource]*optional[*unstructured.Unstructured]{},
		kicked:     make(chan struct{}, 1),
		report:     report,
		changed:    changed,
	}
	c.planner = planner.New(c.ledger)
	defaults := topology.DefaultLevels()
	c.levels.Store(&defaults)
	podEvents, err := factory.Core().V1().Pods().Informer().AddEventHandler(c.podHandler())
	if err != nil {
		return nil, err
	}
	nodeEvents, err := factory.Core().V1().Nodes().Informer().AddEventHandler(c.nodeHandler())
	if err != nil {
		return nil, err
	}
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(c.quotaHandler()); err != nil {
		return nil, err
	}
	nodeChanged := func(name string) {
		if c.SyncNode(name) { // most changes are telemetry
			changed(c, model.NodeID(name))
		}
	}
	c.everyNode = func() {
		nodes, _ := c.nodes.List(labels.Everything())
		for _, n := range nodes {
			nodeChanged(n.Name)
		}
	}
	if c.gpuNodes, err = newOptional[*v1alpha1.GPUNode](from.GPUNodes, &v1alpha1.GPUNode{},
		"No GPUNodes here: devices are derived from node labels and allocatable", nodeChanged, c.everyNode); err != nil {
		return nil, err
	}
	c.synced = []cache.InformerSynced{podEvents.HasSynced, nodeEvents.HasSynced, c.gpuNodes.synced}
	if from.NodeTopologies != nil {
		if c.topologies, err = newOptional[*unstructured.Unstructured](from.NodeTopologies, &unstructured.Unstructured{},
			"No NodeResourceTopologies here: kubelets' NUMA policies are not known", nodeChanged, c.everyNode); err != nil {
			return nil, err
		}
		c.synced = append(c.synced, c.topologies.synced)
		go c.topologies.informer.RunWithContext(ctx)
	}
	for kind, source := range from.Groups {
		changed := func(key string) { c.syncOwner(kind, key) }
		switch kind {
		case dialect.Queues:
			changed = c.syncQueue
		case dialect.Priorities:
			changed = c.syncPriority
		}
		watch, err := newOptional[*unstructured.Unstructured](source, &unstructured.Unstructured{},
			"No "+kind.Resource+" here", changed, func() {})
		if err != nil {
			return nil, err
		}
		c.objects[kind] = watch
		c.synced = append(c.synced, watch.synced)
	}
	for _, watch := range c.objects { // all are known before the first is heard of
		go watch.informer.RunWithContext(ctx)
	}
	go c.gpuNodes.informer.RunWithContext(ctx)
	return c, nil
}

// Configure changes how gangs are decided about, from the next engine on.
func (c *Cluster) Configure(change func(*engine.Options)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.options)
}

// WaitForSync blocks until the ledger has seen everything that existed when the
// informers started.
func (c *Cluster) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), c.synced...)
}

// Search ranks the nodes for a request and returns up to limit of them, best
// first, after skipping some.
func (c *Cluster) Search(r *model.Request, w score.Weights, skip, limit int) []model.NodeID {
	c.mu.Lock() // the planner catches up with the ledger first
	defer c.mu.Unlock()
	var out []model.NodeID
	for candidate := range c.planner.Candidates(r, w) {
		if skip > 0 {
			skip--
			continue
		}
		if len(out) == limit {
			break
		}
		out = append(out, candidate.Node)
	}
	return out
}

// Reasons says why nodes cannot take a request.
func (c *Cluster) Reasons(r *model.Request) explain.Tally {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.planner.Reasons(r)
}

// Rate says how good a node is for a request, 0..score.Scale, term by term. A node
// that cannot take it rates 0.
func (c *Cluster) Rate(r *model.Request, w score.Weights, id model.NodeID) planner.Rating {
	c.mu.Lock()
	defer c.mu.Unlock()
	rating, _ := c.planner.Rate(r, w, id)
	return rating
}

// Trial is a hypothesis about one node, as preemption makes them: without some
// holders, with some others.
type Trial struct {
	Without map[model.HolderID]bool
	With    []ledger.Claim
}

// Fit says why a node cannot take a request, or nil.
func (c *Cluster) Fit(r *model.Request, id model.NodeID, t *Trial) *explain.Refusal {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.ledger.View(id)
	if ok && t != nil {
		v, ok = c.ledger.ViewWith(id, func(h model.HolderID) bool { return t.Without[h] }, t.With)
	}
	if !ok {
		return &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	_, refusal := place.Fit(r, v)
	return refusal
}

// Victims names holders of lower priority who must leave a node, beside those who do
// anyway, for a request to fit there; false when that cannot help.
func (c *Cluster) Victims(r *model.Request, id model.NodeID, leaving []model.HolderID) ([]model.HolderID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return place.Victims(c.ledger, r, id, leaving)
}

// HoldsBelow says whether anybody holds devices at a priority below p.
func (c *Cluster) HoldsBelow(p int32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ledger.HoldsBelow(p)
}

// Assignment is what Reserve promised a pod.
type Assignment struct {
	Node  *model.Node
	Grant place.Grant
}

// Reserve chooses devices on a node and holds them for the pod, or says why
// not.
func (c *Cluster) Reserve(pod *v1.Pod, r *model.Request, id model.NodeID) (Assignment, *explain.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.ledger.View(id)
	if !ok {
		return Assignment{}, &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	grant, refusal := c.planner.Fit(r, v)
	if refusal != nil {
		return Assignment{}, refusal
	}
	c.ledger.Put(id, dialect.ClaimOf(pod, r, v.Node, grant))
	c.unwait(pod)
	return Assignment{v.Node, grant}, nil
}

// Unreserve takes back a promise, unless the API has meanwhile shown it kept.
func (c *Cluster) Unreserve(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Forget(model.HolderID(pod.UID))
}
