package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// KueueRacks are a flavor of Kueue that knows racks and hosts, and its topology.
const KueueRacks = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: topology.kubernetes.io/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: racks}
spec: {nodeLabels: {kubernetes.io/os: linux}, topologyName: racks}
`

// KueueQueue is a ClusterQueue with quotas of one flavor, and the LocalQueue of the namespace
// default that leads to it.
func KueueQueue(name, local, flavor string, quotas map[string]int) string {
	var resources []string
	for _, r := range slices.Sorted(maps.Keys(quotas)) {
		resources = append(resources, fmt.Sprintf("{name: %s, nominalQuota: %d}", r, quotas[r]))
	}
	return fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [%[4]s]
    flavors: [{name: %[3]s, resources: [%[5]s]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[2]s, namespace: default}
spec: {clusterQueue: %[1]s}
`, name, local, flavor, strings.Join(slices.Sorted(maps.Keys(quotas)), ", "), strings.Join(resources, ", "))
}
