package dra

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
)

const (
	schedulerUser = "system:tangram:gpu-scheduler"
	driver        = "gpu.tangram.dev"
)

// world is a control plane with simulated nodes that publish ResourceSlices.
type world struct {
	*local.Cluster
	t       testing.TB
	client  kubernetes.Interface
	dynamic dynamic.Interface
	runs    int
}

func binDir(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(wd, "..", "..", "bin")
	}
	if err := local.RequirePrograms(dir, "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "gpu-scheduler"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}

// newWorld starts a control plane with DeviceClasses, and nodes.
func newWorld(t testing.TB, pools string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: t.TempDir(), Bin: binDir(t), ControllerManager: true, KWOK: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: cluster, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range cluster.Processes() {
				if strings.HasPrefix(p.Name(), "gpu-") {
					t.Logf("%s:\n%s", p.Name(), tail(p.Log(), 40))
				}
			}
		}
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	for _, docs := range [][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs(), []byte(classes)} {
		if err := cluster.ApplyManifests(ctx, docs); err != nil {
			t.Fatal(err)
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte("pools: "+pools))
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		t.Fatal(err)
	}
	return w
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
	name := fmt.Sprintf("gpu-scheduler-%d", w.runs)
	file := filepath.Join(w.Dir(), name+".yaml")
	if err := os.WriteFile(file, config.Scheduler(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	kubeconfig, err := w.KubeconfigFor(schedulerUser)
	if err != nil {
		w.t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := append(w.ServeArgs(port, kubeconfig), "--config="+file, "--leader-elect=false", "-v=3")
	p, err := w.Run(ctx, local.Program{Name: name, Path: filepath.Join(binDir(w.t), "gpu-scheduler"), Args: args, Ready: ready})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// uuids are the cards of a node as its GPUNode lists them; none when it has no GPUNode.
func (w *world) uuids(node string) (out []string) {
	w.t.Helper()
	gn, err := w.dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), node, metav1.GetOptions{})
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
	if _, err := w.client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
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
	if _, err := w.client.ResourceV1().ResourceClaimTemplates(namespace).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func devices(r ...resourceapi.DeviceRequest) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: r}
}

// pod is a pod of a namespace.
func pod(namespace, name string, change ...func(*v1.Pod)) *v1.Pod {
	no := false
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName, AutomountServiceAccountToken: &no,
			Containers: []v1.Container{{Name: "main", Image: "pause", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}},
		},
	}
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

func label(key, value string) func(*v1.Pod) { return func(p *v1.Pod) { p.Labels[key] = value } }

// gang makes a pod a member of a gang.
func gang(name string, size int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = name, fmt.Sprint(size)
	}
}

func (w *world) createNamespace(name string) {
	w.t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"}}}
	if _, err := w.client.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("service account", 20*time.Second, func() (bool, string) {
		_, err := w.client.CoreV1().ServiceAccounts(name).Get(context.Background(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func (w *world) create(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		if _, err := w.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) get(namespace, name string) *v1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// clear deletes all pods and claims of a namespace and waits until they are gone.
func (w *world) clear(namespace string) {
	w.t.Helper()
	ctx, now := context.Background(), int64(0)
	if err := w.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.ResourceV1().ResourceClaims(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("namespace "+namespace+" is empty", 30*time.Second, func() (bool, string) {
		pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		claims, err := w.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(pods.Items)+len(claims.Items) == 0, fmt.Sprintf("%d pods, %d claims", len(pods.Items), len(claims.Items))
	})
}

func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	limit *= await.Patience
	if ok, seen := await.Until(limit, holds); !ok {
		w.t.Fatalf("%s: not within %s; last seen: %s", what, limit, seen)
	}
}

// bound waits until pods are bound.
func (w *world) bound(namespace string, pods ...string) {
	w.t.Helper()
	for _, name := range pods {
		w.eventually("pod "+name+" is bound", 30*time.Second, func() (bool, string) {
			p := w.get(namespace, name)
			return p.Spec.NodeName != "", condition(p)
		})
	}
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
	w.eventually("pod "+name+" waits", 30*time.Second, func() (bool, string) {
		p := w.get(namespace, name)
		text := condition(p)
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false, text
			}
		}
		return p.Spec.NodeName == "" && text != "", text
	})
}

func condition(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
