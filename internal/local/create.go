package local

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
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
	// Protobuf for the built-in types: smaller and faster at both ends.
	config := c.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	gpuNodes := dynamicClient.Resource(v1alpha1.GPUNodes)
	// Inventory first: a scheduler that watches both then never sees the node
	// without its devices.
	err = inParallel(ctx, f.GPUNodes(), func(ctx context.Context, n *v1alpha1.GPUNode) error {
		return createGPUNode(ctx, gpuNodes, n)
	})
	if err != nil {
		return err
	}
	err = inParallel(ctx, f.Nodes(), func(ctx context.Context, n *v1.Node) error {
		return createNode(ctx, client, n)
	})
	if err != nil {
		return err
	}
	c.say("fleet ready (%s): %s", Elapsed(begin), f)
	return nil
}

// PruneFleet deletes simulated nodes that are not the fleet's, which an earlier
// start with another fleet left in the state directory.
func (c *Cluster) PruneFleet(ctx context.Context, f *Fleet) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(c.RESTConfig())
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
			err = dynamicClient.Resource(v1alpha1.GPUNodes).Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node %s: %w", name, err)
		}
		return nil
	})
}

func createNode(ctx context.Context, client kubernetes.Interface, n *v1.Node) error {
	_, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = updateNode(ctx, client, n)
	}
	if err != nil {
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	return nil
}

// updateNode sets what the fleet decides and leaves the rest (cordon, conditions,
// other people's labels) as it is.
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

func createGPUNode(ctx context.Context, client dynamic.ResourceInterface, n *v1alpha1.GPUNode) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	err = retryWhileNew(ctx, func(ctx context.Context) error {
		_, err := client.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if apierrors.IsAlreadyExists(err) {
		var spec []byte
		// Only the inventory: health and telemetry belong to whoever set them.
		if spec, err = json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": n.Spec}}); err == nil {
			_, err = client.Patch(ctx, n.Name, types.JSONPatchType, spec, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("create gpunode %s: %w", n.Name, err)
	}
	return nil
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
