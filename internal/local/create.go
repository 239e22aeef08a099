package local

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// creators is how many objects are created at a time: enough to keep a small
// machine's API server busy.
const creators = 32

// CreateFleet creates the fleet's Node and GPUNode objects, or brings existing
// ones of these names to what the fleet says. It needs the GPUNode CRD.
func (c *Cluster) CreateFleet(ctx context.Context, f *Fleet) error {
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

// PruneFleet deletes simulated nodes that are not the fleet's, which an earlier
// start with another fleet left in the state directory.
func (c *Cluster) PruneFleet(ctx context.Context, f *Fleet) error {
	client, gpuNodes, err := c.fleetClients()
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, n := range f.Nodes() {
		wanted[n.Name] = true
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labelPool})
	if err != nil {
		return err
	}
	var extra []string
	for _, n := range nodes.Items {
		if !wanted[n.Name] && n.Annotations[simulatedKey] == simulatedValue {
			extra = append(extra, n.Name)
		}
	}
	return inParallel(ctx, extra, func(ctx context.Context, name string) error {
		err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			err = gpuNodes.Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node %s: %w", name, err)
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
	existing := map[string]*v1alpha1.GPUNode{}
	err := retryWhileNew(ctx, func(ctx context.Context) error {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list gpunodes: %w", err)
		}
		for i := range list.Items {
			old := &v1alpha1.GPUNode{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, old); err != nil {
				return fmt.Errorf("read gpunode %s: %w", list.Items[i].GetName(), err)
			}
			existing[old.Name] = old
		}
		return nil
	})
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan T)
	var workers sync.WaitGroup
	for range min(creators, len(items)) {
		workers.Go(func() {
			for item := range queue {
				if err := f(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for _, item := range items {
		select {
		case queue <- item:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}
