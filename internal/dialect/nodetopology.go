package dialect

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/model"
)

// NodeTopologies are the objects in which node agents (Node Feature Discovery, the
// resource topology exporter) publish a kubelet's NUMA zones and policy.
var NodeTopologies = schema.GroupVersionResource{Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"}

// nodeTopology is the part of a NodeResourceTopology that Tangram reads.
type nodeTopology struct {
	// TopologyPolicies is the old form of the attributes: policy and scope in one word.
	TopologyPolicies []string `json:"topologyPolicies"`
	Attributes       []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"attributes"`
	Zones []numaZone `json:"zones"`
}

type numaZone struct {
	Type      string `json:"type"`
	Resources []struct {
		Name     string            `json:"name"`
		Capacity resource.Quantity `json:"capacity"`
	} `json:"resources"`
}

// align adds what a NodeResourceTopology says to an inventory; nothing when it returns an error.
func align(n *model.Node, object *unstructured.Unstructured) error {
	var t nodeTopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &t); err != nil {
		return err
	}
	policy, perContainer, err := t.policy()
	if err != nil {
		return err
	}
	var zones []numaZone
	for _, z := range t.Zones {
		if z.Type == "Node" {
			zones = append(zones, z)
		}
	}
	if policy == model.AnyNUMA || len(zones) < 2 { // one NUMA node is aligned with itself
		return nil
	}
	n.NUMA, n.NUMAPerContainer = policy, perContainer
	for _, w := range whole {
		spreadOverZones(n, w.Vendor, w.Name, zones)
	}
	return nil
}

// policy is what kubelet requires. Attributes take precedence over the old form.
func (t *nodeTopology) policy() (p model.NUMAPolicy, perContainer bool, err error) {
	policy, scope, field := "", "container", "attributes[topologyManagerPolicy]"
	if len(t.TopologyPolicies) > 0 {
		field = "topologyPolicies[0]"
		policy = strings.TrimSuffix(t.TopologyPolicies[0], "ContainerLevel")
		if pod := strings.TrimSuffix(policy, "PodLevel"); pod != policy {
			policy, scope = pod, "pod"
		}
	}
	for _, a := range t.Attributes {
		switch a.Name {
		case "topologyManagerPolicy":
			policy, field = a.Value, "attributes[topologyManagerPolicy]"
		case "topologyManagerScope":
			scope = a.Value
		}
	}
	p, known := numaPolicies[policy]
	switch {
	case !known:
		return 0, false, fmt.Errorf("%s: %q is not a policy of kubelet's topology manager", field, policy)
	case p != model.AnyNUMA && scope != "container" && scope != "pod":
		return 0, false, fmt.Errorf("attributes[topologyManagerScope]: %q is neither container nor pod", scope)
	}
	return p, scope == "container", nil
}

// numaPolicies are kubelet's policies, as attributes and as topologyPolicies spell them.
var numaPolicies = map[string]model.NUMAPolicy{
	"": model.AnyNUMA, "none": model.AnyNUMA, "None": model.AnyNUMA, "best-effort": model.AnyNUMA, "BestEffort": model.AnyNUMA,
	"restricted": model.FewestNUMA, "Restricted": model.FewestNUMA, "single-numa-node": model.OneNUMA, "SingleNUMANode": model.OneNUMA,
}

// spreadOverZones assigns devices with an unknown NUMA node to the zones' free places, in order: the
// number in each zone decides whether kubelet admits a pod.
func spreadOverZones(n *model.Node, vendor model.Vendor, resource string, zones []numaZone) {
	var counts []int
	total := 0
	for _, z := range zones {
		count := 0
		for _, r := range z.Resources {
			if r.Name == resource {
				count = int(min(r.Capacity.Value(), model.MaxDevices))
			}
		}
		counts, total = append(counts, count), total+count
	}
	var unknown []int
	for slot, d := range n.Devices {
		if d.Vendor != vendor {
			continue
		}
		if d.NUMA != model.NUMAUnknown {
			return // the devices speak for themselves
		}
		unknown = append(unknown, slot)
	}
	if total != len(unknown) {
		return // shared devices are counted several times
	}
	for zone, count := range counts {
		for _, slot := range unknown[:count] {
			n.Devices[slot].NUMA = zone
		}
		unknown = unknown[count:]
	}
}
