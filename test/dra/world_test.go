package dra

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

const driver = "gpu.tangram.dev"

// world is a control plane with simulated nodes that publish ResourceSlices.
type world struct{ *cluster.World }

// newWorld starts a control plane with DeviceClasses, and nodes.
func newWorld(t testing.TB, pools string) *world {
	t.Helper()
	return &world{cluster.ForTest(t, cluster.Options{
		Programs:   []string{"gpu-scheduler"},
		Kubernetes: local.Options{ControllerManager: true, KWOK: true},
		Manifests:  cluster.Manifests([]byte(fmt.Sprintf(class, "gpu")), []byte(fmt.Sprintf(class, "mig"))),
		Fleet:      "pools: " + pools,
	})}
}

// class is a class of gpu-agent's driver, as its page has them.
const class = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %[1]s.tangram.dev}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "%[1]s"'}
`

// scheduler starts gpu-scheduler.
func (w *world) scheduler() *local.Serving {
	w.T.Helper()
	return w.Scheduler(nil, cluster.Alone, "-v=3")
}

// uuids are the cards of a node as its GPUNode lists them; none when it has no GPUNode.
func (w *world) uuids(node string) (out []string) {
	w.T.Helper()
	if gn := cluster.ReadIf[v1alpha1.GPUNode](w.World, cluster.GPUNodes, node); gn != nil {
		for _, d := range gn.Spec.Devices {
			out = append(out, d.UUID)
		}
	}
	return out
}

// publish creates a node's ResourceSlice with whole GPUs: those of its GPUNode, or so many
// new ones.
func (w *world) publish(node string, count int, change ...func(*resourceapi.ResourceSlice)) {
	w.T.Helper()
	ids := w.uuids(node)
	for i := len(ids); i < count; i++ {
		ids = append(ids, fmt.Sprintf("GPU-%s-%d", node, i))
	}
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1, Generation: 1}},
	}
	for i, id := range ids {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: attributes("type", "gpu", "uuid", id, "productName", "NVIDIA A100-SXM4-80GB", "resource.kubernetes.io/pcieRoot", fmt.Sprintf("pci0000:%02d", i/2)),
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	for _, c := range change {
		c(s)
	}
	_, err := w.Client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{})
	w.Must(err)
}

func attributes(pairs ...string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[resourceapi.QualifiedName(pairs[i])] = resourceapi.DeviceAttribute{StringValue: &pairs[i+1]}
	}
	return out
}

// request asks for devices of a class.
func request(class string, count int64, selectors ...string) resourceapi.DeviceRequest {
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, s := range selectors {
		r.Selectors = append(r.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	return resourceapi.DeviceRequest{Name: "gpus", Exactly: r}
}

// template creates a ResourceClaimTemplate.
func (w *world) template(name string, spec resourceapi.DeviceClaim) {
	w.T.Helper()
	o := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: spec}}}
	_, err := w.Client.ResourceV1().ResourceClaimTemplates(w.Namespace).Create(context.Background(), o, metav1.CreateOptions{})
	w.Must(err)
}

// claim creates a ResourceClaim.
func (w *world) claim(name string, spec resourceapi.DeviceClaim) *resourceapi.ResourceClaim {
	w.T.Helper()
	o := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimSpec{Devices: spec}}
	o, err := w.Client.ResourceV1().ResourceClaims(w.Namespace).Create(context.Background(), o, metav1.CreateOptions{})
	w.Must(err)
	return o
}

func devices(r ...resourceapi.DeviceRequest) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: r}
}

// pod is a pod without GPUs, until a change asks for some.
func pod(name string, change ...cluster.Change) *v1.Pod {
	no := false
	return cluster.Pod(name, 0, append([]cluster.Change{func(p *v1.Pod) { p.Spec.AutomountServiceAccountToken = &no }}, change...)...)
}

// by makes a pod use a claim of its own from a template.
func by(template string) cluster.Change {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "c" + fmt.Sprint(len(p.Spec.ResourceClaims)), ResourceClaimTemplateName: &template})
	}
}

// sharing makes a pod use a claim by name.
func sharing(claim string) cluster.Change {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "s", ResourceClaimName: &claim})
	}
}

// limit adds an extended resource to a pod.
func limit(name string, amount int64) cluster.Change { return cluster.Needs(name, fmt.Sprint(amount)) }

// create creates pods.
func (w *world) create(pods ...*v1.Pod) {
	w.T.Helper()
	for _, p := range pods {
		w.Create(p)
	}
}

// clear deletes all pods and claims and waits until they are gone.
func (w *world) clear() {
	w.T.Helper()
	ctx, claims := context.Background(), w.Client.ResourceV1().ResourceClaims(w.Namespace)
	w.Clear()
	w.Must(claims.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.Eventually("namespace "+w.Namespace+" has no claims", func() (bool, string) {
		list, err := claims.List(ctx, metav1.ListOptions{})
		w.Must(err)
		return len(list.Items) == 0, fmt.Sprint(len(list.Items))
	})
}

// in is the world in a new namespace.
func (w *world) in(namespace string) *world {
	w.T.Helper()
	return &world{w.AddNamespace(namespace, `resource.kubernetes.io/admin-access: "true"`)}
}

// on is the world for a subtest with a namespace of its own, which is emptied at its end.
func (w *world) on(t *testing.T, namespace string) *world {
	t.Helper()
	out := (&world{w.In(t)}).in(namespace)
	t.Cleanup(out.clear)
	return out
}
