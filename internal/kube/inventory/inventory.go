package inventory

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// Inventory describes the cluster's nodes. It is safe for concurrent use.
type Inventory struct {
	nodes    corelisters.NodeLister
	gpuNodes *watch.Optional[*v1alpha1.GPUNode]
	// topologies are NodeResourceTopologies; nil when they are not watched.
	topologies *watch.Optional[*unstructured.Unstructured]
	// networks are HyperNodes and Topologies, which add levels of domains.
	networks   map[schema.GroupVersionResource]*watch.Optional[*unstructured.Unstructured]
	configured atomic.Pointer[topology.Levels]
	domains    atomic.Pointer[domains]
	devices    Devices
}

// Devices are the GPUs that DRA drivers publish.
type Devices interface {
	// Published are those of a node.
	Published(node string) []dialect.Published
	// Backed are the extended resources for which a DeviceClass stands.
	Backed() []v1.ResourceName
}

// SetDevices adds what DRA drivers publish to nodes. It is called before Run.
func (i *Inventory) SetDevices(d Devices) { i.devices = d }

// New watches the objects of the sources, once it is run. changed is called with the
// name of a node whose GPUNode or NodeResourceTopology changed, levels when objects changed
// that define levels of domains.
func New(nodes corelisters.NodeLister, from watch.Sources, changed func(node string), levels func()) (*Inventory, error) {
	i := empty(nodes)
	all := func() { i.each(changed) }
	var err error
	if i.gpuNodes, err = watch.New[*v1alpha1.GPUNode](from.GPUNodes, &v1alpha1.GPUNode{},
		"No GPUNodes here: devices are derived from node labels and allocatable", changed, all); err != nil {
		return nil, err
	}
	if from.NodeTopologies != nil {
		if i.topologies, err = watch.New[*unstructured.Unstructured](from.NodeTopologies, &unstructured.Unstructured{},
			"No NodeResourceTopologies here: kubelets' NUMA policies are not known", changed, all); err != nil {
			return nil, err
		}
	}
	for kind, source := range from.Topologies {
		if i.networks[kind], err = watch.New[*unstructured.Unstructured](source, &unstructured.Unstructured{},
			"No "+kind.Resource+" of "+kind.Group+" here", func(string) { levels() }, levels); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// empty is an Inventory with the default levels of domains and without objects.
func empty(nodes corelisters.NodeLister) *Inventory {
	i := &Inventory{nodes: nodes, networks: map[schema.GroupVersionResource]*watch.Optional[*unstructured.Unstructured]{}}
	defaults := topology.DefaultLevels()
	i.configured.Store(&defaults)
	i.domains.Store(&domains{levels: defaults})
	return i
}

// Run watches until the context ends. It does not block.
func (i *Inventory) Run(ctx context.Context) {
	go i.gpuNodes.Run(ctx)
	if i.topologies != nil {
		go i.topologies.Run(ctx)
	}
	for _, w := range i.networks {
		go w.Run(ctx)
	}
}

// Synced says whether everything has been seen that existed at the start. HyperNodes and
// Topologies are not waited for: until they are seen their levels are unknown.
func (i *Inventory) Synced() bool {
	return i.gpuNodes.Synced() && (i.topologies == nil || i.topologies.Synced())
}

// each calls a function with the name of every node.
func (i *Inventory) each(f func(string)) {
	nodes, _ := i.nodes.List(labels.Everything()) // the store knows no error
	for _, n := range nodes {
		f(n.Name)
	}
}

// Description is a node as core sees it.
type Description struct {
	Node       *model.Node
	Telemetry  []model.Telemetry
	MeasuredAt time.Time // when the agent measured it; zero when it does not say
	Agent      bool      // the node has an agent, which corrects records to what containers have
	// Published are the GPUs of DRA drivers; ClaimsOnly: the node has no others.
	Published  []dialect.Published
	ClaimsOnly bool
	// Object is the Node it was made of.
	Object *v1.Node
	// Problem is what is wrong with About; Node has as much as can be used.
	Problem error
	About   *v1.ObjectReference
}

// Describe reads a node from the stores; false when it is not there.
func (i *Inventory) Describe(name string) (Description, bool) {
	node, err := i.nodes.Get(name)
	if err != nil { // the store knows no other error than "not found"
		return Description{}, false
	}
	facts := dialect.Facts{GPUNode: i.gpuNodes.Get(name), Topology: i.topologies.Get(name)}
	tree := i.domains.Load()
	facts.Levels, facts.Tiers = tree.levels, tree.tiers
	d := Description{Object: node, About: &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	if gn := facts.GPUNode; gn != nil {
		d.Agent = gn.Spec.Agent != nil
		if gn.Status.MeasuredAt != nil {
			d.MeasuredAt = gn.Status.MeasuredAt.Time
		}
		d.About = &v1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNode", Name: gn.Name, UID: gn.UID}
	}
	d.Node, d.Problem = dialect.Describe(node, facts)
	if i.devices != nil {
		if d.Published = i.devices.Published(name); len(d.Published) > 0 {
			if d.ClaimsOnly, err = dialect.AddPublished(d.Node, node, d.Published, i.devices.Backed()); err != nil {
				d.Problem = err
			}
		}
	}
	d.Telemetry = dialect.Telemetry(d.Node, facts.GPUNode)
	return d, true
}

// Troubles says why devices of a node are not healthy, by index, as its agent does.
func (i *Inventory) Troubles(name string) map[int]string {
	gn := i.gpuNodes.Get(name)
	if gn == nil {
		return nil
	}
	out := map[int]string{}
	for _, d := range gn.Status.Devices {
		if d.Health != v1alpha1.Healthy && d.Reason != "" {
			out[int(d.Index)] = d.Reason
		}
	}
	return out
}

// All describes every node.
func (i *Inventory) All() (out []Description) {
	i.each(func(name string) {
		if d, ok := i.Describe(name); ok {
			out = append(out, d)
		}
	})
	return out
}
