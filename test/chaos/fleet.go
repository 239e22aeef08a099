package chaos

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// The fleet: two generations that can be cut, two models that cannot, nodes that
// offer each device once and nodes that offer each ten times (as device plugins that
// share do), and a node for pulses alone.
const fleetFile = `
pools:
- {name: a100, count: 4, gpu: {model: A100-80GB, count: 8, mig: true}}
- {name: shared, count: 2, gpu: {model: A100-80GB, count: 8}}
- {name: v100, count: 3, gpu: {model: V100-32GB, count: 4}}
- {name: t4, count: 2, gpu: {model: T4, count: 2}}
- {name: pulse, count: 1, gpu: {model: T4, count: 16}, taints: [{key: chaos.tangram.dev/pulse, value: only, effect: NoSchedule}]}
`

const (
	pulseNode = "pulse-0"
	labelPool = "tangram.dev/pool" // which local puts on nodes and GPUNodes
)

// queues has limits at two levels, and classes three priorities with none.
const queues = `
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team}, spec: {capability: {nvidia.com/gpu: 16}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team-a}, spec: {parent: team, capability: {nvidia.com/gpu: 8}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team-b}, spec: {parent: team, weight: 2, capability: {nvidia.com/gpu: 12}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: small}, spec: {capability: {nvidia.com/gpu: 2}}}
`

const classes = `
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
`

// capabilities are the limits of queues, in thousandths of a GPU.
func capabilities() map[string]checker.Queue {
	return map[string]checker.Queue{
		"team":   {Capability: 16000},
		"team-a": {Parent: "team", Capability: 8000},
		"team-b": {Parent: "team", Capability: 12000},
		"small":  {Capability: 2000},
	}
}

// facts are what the checker is told of the above.
func facts(f *fleet.Fleet) checker.Facts {
	out := checker.Facts{Nodes: map[string]checker.Node{}, Queues: capabilities()}
	for _, gn := range f.GPUNodes() {
		n := checker.Node{Devices: map[int]checker.Device{}, Apart: gn.Name == pulseNode, Pool: gn.Labels[labelPool]}
		for _, d := range gn.Spec.Devices {
			device := checker.Device{UUID: d.UUID, MemoryMiB: d.MemoryMiB}
			if d.MIG != nil {
				device.Slices, device.Profiles = 8, map[string]int{}
				for _, p := range d.MIG.Profiles {
					device.Profiles[p.Name] = int(p.Size)
				}
			}
			n.Devices[int(d.Index)] = device
		}
		out.Nodes[gn.Name] = n
	}
	return out
}

// loadNodes are the nodes that ordinary pods go to.
func (w *world) loadNodes() []string {
	var names []string
	for _, n := range w.fleet.Nodes() {
		if n.Name != pulseNode {
			names = append(names, n.Name)
		}
	}
	return names
}

// publish makes a node of the shared pool offer each device ten times.
func (w *world) publish(ctx context.Context, node string) error {
	if !strings.HasPrefix(node, "shared-") {
		return nil
	}
	patch := []byte(`{"status":{"capacity":{"nvidia.com/gpu":"80"},"allocatable":{"nvidia.com/gpu":"80"}}}`)
	_, err := w.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// createNode brings a lost node back, as it was.
func (w *world) createNode(ctx context.Context, name string) error {
	for _, n := range w.fleet.Nodes() {
		if n.Name != name {
			continue
		}
		nodes := w.client.CoreV1().Nodes()
		created, err := nodes.Create(ctx, n, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = nodes.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
		created.Status = n.Status
		if _, err := nodes.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return w.publish(ctx, name)
	}
	return nil
}

// cordon sets whether a node takes new pods.
func (w *world) cordon(ctx context.Context, node string, closed bool) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"unschedulable": closed}})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // lost at the moment; it comes back open
	}
	return err
}

// health reports the state of one device, or of none: then all are healthy.
func (w *world) health(ctx context.Context, node string, failed ...int) error {
	devices := []map[string]any{}
	for _, index := range failed {
		devices = append(devices, map[string]any{"index": index, "health": string(v1alpha1.Failed), "reason": "chaos"})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"devices": devices}})
	if err != nil {
		return err
	}
	_, err = w.dynamic.Resource(v1alpha1.GPUNodes).Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
