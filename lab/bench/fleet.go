package bench

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
)

// nodeWriters is how many nodes are created at a time; more did not help two
// CPUs.
const nodeWriters = 16

// Each GPU comes with as much CPU and memory as on the large nodes that are sold,
// so that GPUs are what runs out.
const (
	cpusPerGPU      = 16
	memoryGiBPerGPU = 128
)

func nodeName(i int) string { return fmt.Sprintf("gpu-%05d", i) }

// newNode is a node as its kubelet would report it. All contenders see the same
// nodes, described by labels and allocatable alone: a cluster where nothing of
// Tangram but the scheduler runs.
func newNode(i, gpus int) *corev1.Node {
	count := strconv.Itoa(gpus)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(gpus*cpusPerGPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(gpus*memoryGiBPerGPU)<<30, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
		names.ResourceNVIDIA:  *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(i),
			Labels: map[string]string{
				corev1.LabelHostname:     nodeName(i),
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   "amd64",
				names.LabelAccelerator:   "nvidia-a100",
				names.LabelGPUCount:      count,
				names.LabelNVIDIACount:   count,
				names.LabelNVIDIAProduct: "NVIDIA-A100-SXM4-80GB",
				names.LabelNVIDIAMemory:  "81920",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			}},
		},
	}
}

// createNodes creates the fleet. Admission taints every new node as not ready and
// leaves it to the node controller to take that back; there is no such
// controller here, so a second write does it.
func createNodes(ctx context.Context, client kubernetes.Interface, count, gpus int, change func(*corev1.Node)) error {
	return parallel(ctx, nodeWriters, count, func(ctx context.Context, i int) error {
		wanted := newNode(i, gpus)
		change(wanted)
		node, err := client.CoreV1().Nodes().Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil && len(node.Spec.Taints) > 0 {
			node.Spec.Taints = nil
			_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("create node %s: %w", nodeName(i), err)
		}
		return nil
	})
}
