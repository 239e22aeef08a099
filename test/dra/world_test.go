package dra

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const driver = "gpu.tangram.dev"

// world is a control plane with simulated nodes that publish ResourceSlices.
type world struct {
	*cluster.Cluster
	t    testing.TB
	runs int
}

// newWorld starts a control plane with DeviceClasses, and nodes.
func newWorld(t testing.TB, pools string) *world {
	t.Helper()
	return &world{t: t, Cluster: cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler"), ControllerManager: true, KWOK: true},
		Manifests:  [][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs(), []byte(classes)},
		Fleet:      "pools: " + pools,
	})}
}

// classes are the classes of gpu-agent's driver, as its page has them.
const classes = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.tangram.dev}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "gpu"'}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig.tangram.dev}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "mig"'}
`

func (w *world) apply(docs string) {
	w.t.Helper()
	if err := w.ApplyManifests(context.Background(), []byte(docs)); err != nil {
		w.t.Fatal(err)
	}
}

// scheduler starts gpu-scheduler.
func (w *world) scheduler() *local.Process {
	w.t.Helper()
	w.runs++
	p, err := w.Launch(context.Background(), local.Component{Name: "gpu-scheduler", As: fmt.Sprintf("gpu-scheduler-%d", w.runs), Config: config.Scheduler(), Flags: []string{cluster.Alone, "-v=3"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Process
}

// uuids are the cards of a node as its GPUNode lists them; none when it has no GPUNode.
func (w *world) uuids(node string) (out []string) {
	w.t.Helper()
	gn, err := w.Dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	devices, _, _ := unstructuredList(gn.Object, "spec", "devices")
	for _, d := range devices {
		out = append(out, d["uuid"].(string))
	}
	return out
}

// publish creates a node's ResourceSlice with whole GPUs: those of its GPUNode, or so many
// new ones.
func (w *world) publish(node string, count int, change ...func(*resourceapi.ResourceSlice)) {
	w.t.Helper()
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
	if _, err := w.Client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
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

// template creates a ResourceClaimTemplate in a namespace.
func (w *world) template(namespace, name string, spec resourceapi.DeviceClaim) {
	w.t.Helper()
	o := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: spec}}}
	if _, err := w.Client.ResourceV1().ResourceClaimTemplates(namespace).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func devices(r ...resourceapi.DeviceRequest) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: r}
}

// pod is a pod of a namespace.
func pod(namespace, name string, change ...func(*v1.Pod)) *v1.Pod {
	no := false
	p := cluster.Pod(namespace, name, 0)
	p.Spec.AutomountServiceAccountToken = &no
	for _, c := range change {
		c(p)
	}
	return p
}

// by makes a pod use a claim of its own from a template.
func by(template string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "c" + fmt.Sprint(len(p.Spec.ResourceClaims)), ResourceClaimTemplateName: &template})
	}
}

// sharing makes a pod use a claim by name.
func sharing(claim string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "s", ResourceClaimName: &claim})
	}
}

// limit adds an extended resource to a pod.
func limit(name string, amount int64) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

func label(key, value string) func(*v1.Pod) { return cluster.Label(key, value) }

// gang makes a pod a member of a gang.
func gang(name string, size int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = name, fmt.Sprint(size)
	}
}

func (w *world) createNamespace(name string) {
	w.t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"}}}
	if _, err := w.Client.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("service account", 20*time.Second, func() (bool, string) {
		_, err := w.Client.CoreV1().ServiceAccounts(name).Get(context.Background(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func (w *world) create(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		w.Create(w.t, p)
	}
}

func (w *world) get(namespace, name string) *v1.Pod {
	w.t.Helper()
	return w.Get(w.t, namespace, name)
}

// clear deletes all pods and claims of a namespace and waits until they are gone.
func (w *world) clear(namespace string) {
	w.t.Helper()
	ctx, now := context.Background(), int64(0)
	if err := w.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.ResourceV1().ResourceClaims(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("namespace "+namespace+" is empty", 30*time.Second, func() (bool, string) {
		pods, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		claims, err := w.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(pods.Items)+len(claims.Items) == 0, fmt.Sprintf("%d pods, %d claims", len(pods.Items), len(claims.Items))
	})
}

func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	await.Eventually(w.t, what, limit*await.Patience, holds)
}

// bound waits until pods are bound.
func (w *world) bound(namespace string, pods ...string) {
	w.t.Helper()
	w.Bound(w.t, 30*time.Second*await.Patience, namespace, pods...)
}

// on is the world for a subtest with a namespace of its own, which is emptied at its end.
func (w *world) on(t *testing.T, namespace string) *world {
	t.Helper()
	out := *w
	out.t = t
	out.createNamespace(namespace)
	t.Cleanup(func() { out.clear(namespace) })
	return &out
}

// waits waits until a pod is told that it waits, with words.
func (w *world) waits(namespace, name string, words ...string) {
	w.t.Helper()
	w.Waits(w.t, 30*time.Second*await.Patience, namespace, name, words...)
}

// condition is what a pod that waits is told.
func condition(p *v1.Pod) string {
	if c := cluster.Scheduled(p); c.Status == v1.ConditionFalse {
		return c.Message
	}
	return ""
}
