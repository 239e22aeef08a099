package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
)

// With --claims the nodes' GPUs are published in ResourceSlices alone, and every pod has a
// ResourceClaim of its own, made before the pod: no controller makes them from a template,
// so that what is measured is scheduling.
const (
	claimDriver = "gpu.nvidia.com"
	claimClass  = "gpu.nvidia.com"
)

// createSlices publishes the GPUs of all nodes.
func createSlices(ctx context.Context, client kubernetes.Interface, count, gpus int) error {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: claimClass}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`},
	}}}}
	if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create device class: %w", err)
	}
	return parallel(ctx, nodeWriters, count, func(ctx context.Context, i int) error {
		if _, err := client.ResourceV1().ResourceSlices().Create(ctx, newSlice(i, gpus), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create resource slice of %s: %w", nodeName(i), err)
		}
		return nil
	})
}

// newSlice is a node's GPUs as NVIDIA's driver publishes them.
func newSlice(i, gpus int) *resourceapi.ResourceSlice {
	node := nodeName(i)
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: claimDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	for g := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", g),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": text("gpu"), "uuid": text(fmt.Sprintf("GPU-%05d-%d", i, g)), "productName": text("NVIDIA A100-SXM4-80GB"),
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return s
}

// createClaims makes the claims of a cohort.
func (l *load) createClaims(ctx context.Context, c *cohort) error {
	return parallel(ctx, creators, c.size(), func(ctx context.Context, i int) error {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.podName(i), Namespace: namespace}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: claimClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(l.gpus)}}},
		}}}
		if _, err := l.client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create claim %s: %w", claim.Name, err)
		}
		return nil
	})
}

// removeClaims deletes the claims of a cohort, as the controller would once their pods are
// gone.
func (l *load) removeClaims(ctx context.Context, c *cohort) error {
	return parallel(ctx, creators, c.size(), func(ctx context.Context, i int) error {
		claims := l.client.ResourceV1().ResourceClaims(namespace)
		_, err := claims.Patch(ctx, c.podName(i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = claims.Delete(ctx, c.podName(i), metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete claim %s: %w", c.podName(i), err)
		}
		return nil
	})
}

// byClaim makes a pod ask for its GPUs through the claim of its name.
func byClaim(pod *corev1.Pod) {
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		delete(list, names.ResourceNVIDIA)
	}
	name := pod.Name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
}

// checkClaims compares the claims at the end with their pods: each is allocated on its
// pod's node, as many devices as were asked for, and no device twice.
func checkClaims(want expectation, pods []corev1.Pod, claims []resourceapi.ResourceClaim) []string {
	node := map[string]string{}
	for i := range pods {
		node[pods[i].Name] = pods[i].Spec.NodeName
	}
	byName := map[string]*resourceapi.ResourceClaim{}
	for i := range claims {
		byName[claims[i].Name] = &claims[i]
	}
	books := deviceBooks{holder: map[string]string{}}
	for _, name := range want.pods {
		c := byName[name]
		if c == nil || c.Status.Allocation == nil {
			books.problems.addf("claim %s is not allocated", name)
			continue
		}
		results := c.Status.Allocation.Devices.Results
		if len(results) != want.gpusPerPod {
			books.problems.addf("claim %s asked for %d GPUs and has %d", name, want.gpusPerPod, len(results))
		}
		for _, r := range results {
			if r.Pool != node[name] {
				books.problems.addf("pod %s is on node %s and its claim on %s", name, node[name], r.Pool)
			}
			books.hold("device "+r.Pool+"/"+r.Device, name)
		}
	}
	return books.problems.texts()
}
