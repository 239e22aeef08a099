package publish

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

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

// NewAPI is the API of a cluster.
func NewAPI(client kubernetes.Interface, objects dynamic.Interface) API {
	return cluster{client, objects.Resource(v1alpha1.GPUNodes)}
}

type cluster struct {
	client  kubernetes.Interface
	objects dynamic.ResourceInterface
}

// GetNode reads from the API server's cache: what is a moment old is fresh enough, and a
// thousand agents must not make etcd work.
func (c cluster) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
}

func (c cluster) PatchNode(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Manager})
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

// NewRecorder writes events until the context ends. One serves any number of publishers;
// it counts repetitions of an event instead of writing them again.
func NewRecorder(ctx context.Context, client kubernetes.Interface) (events.EventRecorder, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	go func() {
		<-ctx.Done()
		broadcaster.Shutdown()
	}()
	return broadcaster.NewRecorder(scheme, Manager), nil
}
