package scenario

import (
	"context"
	_ "embed" // the CRD
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// NodeTopologyCRD is as much of the CRD of NodeResourceTopologies as an API server
// needs to serve them.
//
//go:embed noderesourcetopologies.yaml
var NodeTopologyCRD []byte

// topology makes a node's NodeResourceTopology from numa-policy= and numa-scope=;
// nil without a policy. It must be read before the node.
func (l *line) topology(name string) *unstructured.Unstructured {
	policy, scope := l.text("numa-policy", ""), l.text("numa-scope", "container")
	if policy == "" {
		return nil
	}
	gpus, numa := l.number("gpus", 0), max(l.number("numa", 0), 1)
	sells := string(resources[l.text("vendor", "nvidia")])
	counts := make([]int, numa)
	for i := range gpus {
		counts[i*numa/gpus]++
	}
	var zones []any
	for i, count := range counts {
		n := strconv.Itoa(count)
		zones = append(zones, map[string]any{"name": "node-" + strconv.Itoa(i), "type": "Node", "resources": []any{
			map[string]any{"name": sells, "capacity": n, "allocatable": n, "available": n},
		}})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": dialect.NodeTopologies.GroupVersion().String(), "kind": "NodeResourceTopology",
		"metadata": map[string]any{"name": name},
		"attributes": []any{
			map[string]any{"name": "topologyManagerPolicy", "value": policy},
			map[string]any{"name": "topologyManagerScope", "value": scope},
		},
		"zones": zones,
	}}
}

// setTopology writes or removes a node's NodeResourceTopology.
func (s *story) setTopology(ctx context.Context, name string, now *unstructured.Unstructured) error {
	old := s.topologies[name]
	var err error
	switch {
	case now != nil:
		s.topologies[name] = now
		err = s.engine.Apply(ctx, now)
	case old != nil:
		delete(s.topologies, name)
		err = s.engine.Delete(ctx, old)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return s.engine.Settle(ctx)
}
