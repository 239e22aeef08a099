package local

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// creators is how many objects are created at a time: enough to keep a small
// machine's API server busy.
const creators = 32

// describeTimeout is how long an agent may take to describe all nodes of a fleet.
const describeTimeout = 5 * time.Minute

// CreateFleet creates the fleet's Node and GPUNode objects, or brings existing ones of
// these names to what the fleet says. It needs the GPUNode CRD. It is for clusters that
// no agent runs in: nothing measures the devices afterwards.
func (c *Cluster) CreateFleet(ctx context.Context, f *fleet.Fleet) error {
	begin := time.Now()
	client, gpuNodes, err := c.fleetClients()
	if err != nil {
		return err
	}
	// Inventory first: a scheduler that watches both then never sees the node
	// without its devices.
	if err := createGPUNodes(ctx, gpuNodes, f.GPUNodes()); err != nil {
		return err
	}
	if err := createNodes(ctx, client, f.Nodes()); err != nil {
		return err
	}
	c.say("fleet ready (%s): %s", Elapsed(begin), f)
	return nil
}

// CreateNodes creates the fleet's Node objects alone, or brings existing ones to what
// the fleet says. What their GPUs are, as GPUNodes and labels, is left to an agent;
// AwaitFleet waits for it.
func (c *Cluster) CreateNodes(ctx context.Context, f *fleet.Fleet) error {
	client, _, err := c.fleetClients()
	if err != nil {
		return err
	}
	return createNodes(ctx, client, f.BareNodes())
}

// AwaitFleet returns once an agent has described every node that CreateNodes created:
// its GPUNode has the fleet's devices, its Node a label of their number.
func (c *Cluster) AwaitFleet(ctx context.Context, f *fleet.Fleet) error {
	begin := time.Now()
	client, gpuNodes, err := c.fleetClients()
	if err != nil {
		return err
	}
	missing := "anything"
	err = pollGently(ctx, describeTimeout, func(ctx context.Context) (bool, error) {
		if missing, err = undescribed(ctx, client, gpuNodes, f); err != nil {
			missing = err.Error() // the API server may be restarting
		}
		return missing == "", nil
	})
	if err != nil {
		return fmt.Errorf("wait for the agent to describe the nodes: %s: %w", missing, err)
	}
	c.say("fleet ready (%s): %s", Elapsed(begin), f)
	return nil
}

// undescribed says what of the fleet the agent has not written yet; empty for nothing.
func undescribed(ctx context.Context, client kubernetes.Interface, gpuNodes dynamic.ResourceInterface, f *fleet.Fleet) (string, error) {
	wanted := f.GPUNodes()
	// Asking for their number first costs the API server next to nothing.
	first, err := gpuNodes.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("count gpunodes: %w", err)
	}
	if count := first.GetRemainingItemCount(); count != nil && int(*count)+1 < len(wanted) {
		return fmt.Sprintf("%d of %d nodes have a gpunode", *count+1, len(wanted)), nil
	}
	written, err := listGPUNodes(ctx, gpuNodes)
	if err != nil {
		return "", err
	}
	for _, want := range wanted {
		if have := written[want.Name]; have == nil || !sameDevices(have.Spec.Devices, want.Spec.Devices) {
			return fmt.Sprintf("gpunode %s has not its %d devices", want.Name, len(want.Spec.Devices)), nil
		}
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: names.LabelGPUCount})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	labelled := map[string]bool{}
	for i := range nodes.Items {
		labelled[nodes.Items[i].Name] = true
	}
	for _, want := range wanted {
		if !labelled[want.Name] {
			return fmt.Sprintf("node %s has not the label %s", want.Name, names.LabelGPUCount), nil
		}
	}
	return "", nil
}

// sameDevices compares what tells devices apart; an agent may know more of them.
func sameDevices(have, want []v1alpha1.Device) bool {
	return slices.EqualFunc(have, want, func(a, b v1alpha1.Device) bool { return a.Index == b.Index && a.UUID == b.UUID })
}

// pollGently asks until done, at pauses of the time an answer takes, so that waiting
// for thousands of nodes does not keep the API server from them.
func pollGently(ctx context.Context, limit time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		asked := time.Now()
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(readyInterval, 2*time.Since(asked))):
		}
	}
}

func (c *Cluster) fleetClients() (kubernetes.Interface, dynamic.ResourceInterface, error) {
	// Protobuf for the built-in types: smaller and faster at both ends.
	config := c.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, nil, err
	}
	return client, dynamicClient.Resource(v1alpha1.GPUNodes), nil
}

// PruneFleet deletes what an earlier start with another fleet left in the state
// directory: simulated nodes that are not the fleet's, and those that are described as
// having GPUs and have none any more. Call it before nodes are created.
func (c *Cluster) PruneFleet(ctx context.Context, f *fleet.Fleet) error {
	client, gpuNodes, err := c.fleetClients()
	if err != nil {
		return err
	}
	return pruneFleet(ctx, client, gpuNodes, f)
}

func pruneFleet(ctx context.Context, client kubernetes.Interface, gpuNodes dynamic.ResourceInterface, f *fleet.Fleet) error {
	hasGPUs := map[string]bool{} // of the fleet's nodes
	for _, n := range f.BareNodes() {
		hasGPUs[n.Name] = false
	}
	for _, n := range f.GPUNodes() {
		hasGPUs[n.Name] = true
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelPool})
	if err != nil {
		return err
	}
	return inParallel(ctx, nodes.Items, func(ctx context.Context, n v1.Node) error {
		gpus, wanted := hasGPUs[n.Name]
		_, described := n.Labels[names.LabelGPUCount]
		if n.Annotations[fleet.AnnotationSimulated] != fleet.Simulated || wanted && (gpus || !described) {
			return nil
		}
		err := client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			err = gpuNodes.Delete(ctx, n.Name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node %s: %w", n.Name, err)
		}
		return nil
	})
}

// createNodes asks first what exists: to find out by a refused create and to patch
// costs three times a plain create, and a second start finds everything in place.
func createNodes(ctx context.Context, client kubernetes.Interface, nodes []*v1.Node) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	existing := map[string]*v1.Node{}
	for i := range list.Items {
		existing[list.Items[i].Name] = &list.Items[i]
	}
	return inParallel(ctx, nodes, func(ctx context.Context, n *v1.Node) error {
		var err error
		if old := existing[n.Name]; old == nil {
			_, err = client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		} else if !isNodeAsWanted(old, n) {
			err = updateNode(ctx, client, n)
		}
		if err != nil {
			return fmt.Errorf("create node %s: %w", n.Name, err)
		}
		return nil
	})
}

func isNodeAsWanted(old, want *v1.Node) bool {
	return contains(old.Labels, want.Labels) && contains(old.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(old.Status.Capacity, want.Status.Capacity) &&
		equality.Semantic.DeepEqual(old.Status.Allocatable, want.Status.Allocatable)
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// updateNode sets what the fleet defines and leaves the rest (cordon, taints,
// conditions, labels of other writers) as it is.
func updateNode(ctx context.Context, client kubernetes.Interface, n *v1.Node) error {
	meta, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.Labels, "annotations": n.Annotations}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, meta, metav1.PatchOptions{}); err != nil {
		return err
	}
	// JSON patch, because a merge would keep resources the fleet no longer has.
	status, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/status/capacity", "value": n.Status.Capacity},
		{"op": "add", "path": "/status/allocatable", "value": n.Status.Allocatable},
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, n.Name, types.JSONPatchType, status, metav1.PatchOptions{}, "status")
	return err
}

func createGPUNodes(ctx context.Context, client dynamic.ResourceInterface, nodes []*v1alpha1.GPUNode) error {
	existing, err := listGPUNodes(ctx, client)
	if err != nil {
		return err
	}
	return inParallel(ctx, nodes, func(ctx context.Context, n *v1alpha1.GPUNode) error {
		var err error
		if old := existing[n.Name]; old == nil {
			err = createGPUNode(ctx, client, n)
		} else if !equality.Semantic.DeepEqual(old.Spec, n.Spec) {
			err = updateGPUNode(ctx, client, n)
		}
		if err != nil {
			return fmt.Errorf("create gpunode %s: %w", n.Name, err)
		}
		return nil
	})
}

// listGPUNodes returns all GPUNodes by name.
func listGPUNodes(ctx context.Context, client dynamic.ResourceInterface) (map[string]*v1alpha1.GPUNode, error) {
	nodes := map[string]*v1alpha1.GPUNode{}
	return nodes, retryWhileNew(ctx, func(ctx context.Context) error {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list gpunodes: %w", err)
		}
		for i := range list.Items {
			n := &v1alpha1.GPUNode{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, n); err != nil {
				return fmt.Errorf("read gpunode %s: %w", list.Items[i].GetName(), err)
			}
			nodes[n.Name] = n
		}
		return nil
	})
}

func createGPUNode(ctx context.Context, client dynamic.ResourceInterface, n *v1alpha1.GPUNode) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return err
	}
	_, err = client.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	return err
}

// updateGPUNode sets the inventory only: health and telemetry belong to the agents that
// reported them.
func updateGPUNode(ctx context.Context, client dynamic.ResourceInterface, n *v1alpha1.GPUNode) error {
	spec, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": n.Spec}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, n.Name, types.JSONPatchType, spec, metav1.PatchOptions{})
	return err
}

// inParallel calls f for every item, several at a time, and returns the first
// error; the first error also cancels the others.
func inParallel[T any](ctx context.Context, items []T, f func(context.Context, T) error) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(creators)
	for _, item := range items {
		workers.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return f(ctx, item)
		})
	}
	return workers.Wait()
}
