package controller

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// charges are what placed pods are charged: the same amounts that the scheduler counts
// (dialect.Charge). Reading a pod costs much more than adding it up, and every pod that
// comes or goes adds up all, so amounts are kept until the pod or its node changes.
type charges struct {
	nodes, gpuNodes cache.Store
	pods            map[types.UID]podCharge
	inventories     map[string]inventory
}

type podCharge struct {
	version string // of the pod
	node    *model.Node
	amounts map[arbiter.Resource]int64
}

// inventory is a node's devices, made of objects of these versions.
type inventory struct {
	node, gpuNode string
	devices       *model.Node
}

func newCharges(nodes, gpuNodes cache.Store) *charges {
	return &charges{nodes: nodes, gpuNodes: gpuNodes, pods: map[types.UID]podCharge{}, inventories: map[string]inventory{}}
}

// of is what a pod is charged.
func (c *charges) of(p *v1.Pod) map[arbiter.Resource]int64 {
	node := c.devices(p.Spec.NodeName)
	known, ok := c.pods[p.UID]
	if !ok || known.version != p.ResourceVersion || known.node != node {
		known = podCharge{p.ResourceVersion, node, dialect.Charge(p, node)}
		c.pods[p.UID] = known
	}
	return known.amounts
}

// keep forgets all pods but these.
func (c *charges) keep(pods []*v1.Pod) {
	if len(c.pods) <= len(pods) {
		return
	}
	there := make(map[types.UID]podCharge, len(pods))
	for _, p := range pods {
		if known, ok := c.pods[p.UID]; ok {
			there[p.UID] = known
		}
	}
	c.pods = there
}

// devices is a node's inventory; nil for a node that is gone.
func (c *charges) devices(name string) *model.Node {
	obj, ok, err := c.nodes.GetByKey(name)
	if err != nil || !ok {
		delete(c.inventories, name)
		return nil
	}
	node := obj.(*v1.Node)
	var gn *v1alpha1.GPUNode
	version := ""
	if obj, ok, err := c.gpuNodes.GetByKey(name); err == nil && ok {
		gn = obj.(*v1alpha1.GPUNode)
		version = gn.ResourceVersion
	}
	known := c.inventories[name]
	if known.devices == nil || known.node != node.ResourceVersion || known.gpuNode != version {
		devices, _ := dialect.Inventory(node, gn) // the scheduler reports what is wrong with it
		known = inventory{node.ResourceVersion, version, devices}
		c.inventories[name] = known
	}
	return known.devices
}
