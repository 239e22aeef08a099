package publish

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// Manager is the field manager of everything that the agent writes: by it the API server
// remembers which labels are the agent's.
const Manager = "gpu-agent"

// API is what a publisher asks of the API server. Errors are those of the API.
type API interface {
	GetNode(ctx context.Context, name string) (*v1.Node, error)
	PatchNode(ctx context.Context, name string, patch []byte) (*v1.Node, error)
	// GPUNodes are read and written as they are, with fields that this version does not
	// know.
	Get(ctx context.Context, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Patch applies a JSON merge patch to a GPUNode, or to its status.
	Patch(ctx context.Context, name string, patch []byte, status bool) (*unstructured.Unstructured, error)
}

// Nodes reads and patches nodes.
type Nodes interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Node, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, sub ...string) (*v1.Node, error)
}

// NewAPI is the API of a cluster.
func NewAPI(nodes Nodes, objects dynamic.Interface) API {
	return cluster{nodes, objects.Resource(v1alpha1.GPUNodes)}
}

type cluster struct {
	nodes   Nodes
	objects dynamic.ResourceInterface
}

// GetNode reads from the API server's cache: what is a moment old is fresh enough, and a
// thousand agents must not make etcd work.
func (c cluster) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return c.nodes.Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
}

func (c cluster) PatchNode(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return c.nodes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Manager})
}

func (c cluster) Get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return c.objects.Get(ctx, name, metav1.GetOptions{})
}

func (c cluster) Create(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.objects.Create(ctx, o, metav1.CreateOptions{FieldManager: Manager})
}

func (c cluster) Patch(ctx context.Context, name string, patch []byte, status bool) (*unstructured.Unstructured, error) {
	var sub []string
	if status {
		sub = []string{"status"}
	}
	return c.objects.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Manager}, sub...)
}
