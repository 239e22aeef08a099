package inventory

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// Objects are what nodes are described by beside the Nodes themselves.
type Objects struct {
	GPUNodes       []*v1alpha1.GPUNode
	NodeTopologies []*unstructured.Unstructured
	// Networks are HyperNodes and Topologies, by kind.
	Networks map[schema.GroupVersionResource][]*unstructured.Unstructured
}

// Objects returns all that are known now, in no order; they are shared and must not be
// changed.
func (i *Inventory) Objects() Objects {
	out := Objects{GPUNodes: i.gpuNodes.All(), NodeTopologies: i.topologies.All(), Networks: map[schema.GroupVersionResource][]*unstructured.Unstructured{}}
	for kind, w := range i.networks {
		if !w.Absent() {
			out.Networks[kind] = w.All()
		}
	}
	return out
}

// Configured are the levels of domains that the configuration lists.
func (i *Inventory) Configured() topology.Levels { return *i.configured.Load() }

// Fixed is an Inventory of objects that do not change; it is not run.
func Fixed(nodes corelisters.NodeLister, o Objects) (*Inventory, error) {
	i := empty(nodes)
	var err error
	if i.gpuNodes, err = watch.Fixed(&v1alpha1.GPUNode{}, o.GPUNodes); err != nil {
		return nil, err
	}
	if i.topologies, err = watch.Fixed(&unstructured.Unstructured{}, o.NodeTopologies); err != nil {
		return nil, err
	}
	for kind, list := range o.Networks {
		if i.networks[kind], err = watch.Fixed(&unstructured.Unstructured{}, list); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Nodes lists the Nodes.
func (i *Inventory) Nodes() corelisters.NodeLister { return i.nodes }
