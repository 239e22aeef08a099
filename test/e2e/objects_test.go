package e2e

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/cluster"
)

// bareNodes creates the nodes of a fleet without GPUNodes.
func (w *world) bareNodes(text string) {
	w.T.Helper()
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	w.Must(err)
	nodes := w.Client.CoreV1().Nodes()
	for _, n := range f.Nodes() {
		created, err := nodes.Create(context.Background(), n, metav1.CreateOptions{})
		w.Must(err)
		created.Status = n.Status
		if _, err := nodes.UpdateStatus(context.Background(), created, metav1.UpdateOptions{}); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *world) gpuNode(name string) *unstructured.Unstructured {
	w.T.Helper()
	gn := w.Object(cluster.GPUNodes, name)
	return gn
}

// uuid is the UUID of a device.
func (w *world) uuid(node string, index int) string {
	w.T.Helper()
	devices, _, _ := unstructured.NestedSlice(w.gpuNode(node).Object, "spec", "devices")
	uuid, _ := devices[index].(map[string]any)["uuid"].(string)
	return uuid
}

// health sets the state of a device, as an agent would.
func (w *world) health(node string, index int, h v1alpha1.Health) {
	w.T.Helper()
	gn := w.gpuNode(node)
	gn.Object["status"] = map[string]any{"devices": []any{map[string]any{"index": int64(index), "health": string(h), "reason": "test"}}}
	if _, err := w.Dynamic.Resource(v1alpha1.GPUNodes).UpdateStatus(context.Background(), gn, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
}
