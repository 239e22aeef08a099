// Package tenants tests what tenants may and may not do, on a real API server: every test
// acts as a user with a client certificate and only a tenant's roles, through the manifests
// that people apply (config/tenants, examples/tenants). All tests share one cluster.
package tenants

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// world is the cluster that all tests share.
type world struct {
	*local.Cluster
	admin *user
}

// user is what one user's client certificate allows.
type user struct {
	name    string
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

var shared struct {
	sync.Mutex
	world *world
	err   error
}

// TestMain stops the shared cluster after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		err := w.Discard()
		if err == nil && code == 0 { // logs of a failure are kept
			err = os.RemoveAll(w.Dir())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	bin := binDir(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		shared.world, shared.err = startWorld(bin)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T) string {
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
	if err := local.RequirePrograms(dir, "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}

func startWorld(bin string) (w *world, err error) {
	dir, err := os.MkdirTemp("", "tangram-tenants-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{
		Dir: dir, Bin: bin, ControllerManager: true, KWOK: true,
		// Kubernetes' own PodGroups name a priority class, too.
		APIServer: []string{"--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"},
	})
	if err != nil {
		return nil, err
	}
	w = &world{Cluster: cluster}
	defer func() {
		if err != nil {
			_ = cluster.Stop()
		}
	}()
	if w.admin, err = newUser("tangram-admin", cluster.RESTConfig()); err != nil {
		return nil, err
	}
	docs := [][]byte{
		config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC(),
		config.TenantRoles(), config.TenantPolicies(), config.TenantBindings(),
	}
	for _, doc := range append(docs, examples.Tenants()...) {
		if err := cluster.ApplyManifests(ctx, doc); err != nil {
			return nil, err
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte("pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}, {name: x, count: 1, gpu: {model: A100-80GB, count: 8}}]"))
	if err != nil {
		return nil, err
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		return nil, err
	}
	if err := w.run(ctx, "gpu-scheduler", func(port int, kubeconfig string) []string {
		return append(cluster.ServeArgs(port, kubeconfig), "--leader-elect=false")
	}); err != nil {
		return nil, err
	}
	if err := w.run(ctx, "gpu-controller", func(port int, kubeconfig string) []string {
		return append(cluster.ListenArgs(port), "--kubeconfig="+kubeconfig, "--leader-elect=false")
	}); err != nil {
		return nil, err
	}
	return w, w.enforced(ctx)
}

// run starts a program of ours as the user it has.
func (w *world) run(ctx context.Context, name string, args func(port int, kubeconfig string) []string) error {
	kubeconfig, err := w.KubeconfigFor("system:tangram:" + name)
	if err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	bin, err := filepath.Abs(binOf())
	if err != nil {
		return err
	}
	_, err = w.Run(ctx, local.Program{Name: name, Path: filepath.Join(bin, name), Args: args(port, kubeconfig), Ready: ready})
	return err
}

func binOf() string {
	if dir := os.Getenv("TANGRAM_BIN"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "bin")
}

// enforced waits until the API server applies every policy: it learns of them by a watch.
func (w *world) enforced(ctx context.Context) error {
	b, err := w.user("probe", "team-b")
	if err != nil {
		return err
	}
	probes := map[string]*unstructured.Unstructured{
		"pods":      object(`{apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {tangram.dev/queue: team-a}}, spec: {containers: [{name: c, image: pause}]}}`),
		"podgroups": object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: probe}, spec: {minMember: 1, queue: team-a}}`),
		"workloads": object(`{apiVersion: batch/v1, kind: Job, metadata: {name: probe}, spec: {template: {metadata: {labels: {tangram.dev/queue: team-a}}, spec: {restartPolicy: Never, containers: [{name: c, image: pause}]}}}}`),
		"objects":   object(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: probe}, action: CloseQueue, target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: team-a, uid: x}}`),
	}
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		open := ""
		for policy, probe := range probes {
			_, err := b.dryRun("team-b", probe)
			if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				open = fmt.Sprintf("policy %s: %v", policy, err)
			}
		}
		if open == "" {
			return nil
		}
		err = fmt.Errorf("policies are not in force: %s", open)
	}
	return err
}

func newUser(name string, c *rest.Config) (*user, error) {
	u := &user{name: name, config: c}
	var err error
	if u.client, err = kubernetes.NewForConfig(c); err != nil {
		return nil, err
	}
	u.dynamic, err = dynamic.NewForConfig(c)
	return u, err
}

// user is a user of some groups, with a client certificate.
func (w *world) user(name string, groups ...string) (*user, error) {
	path, err := w.KubeconfigFor(name, groups...)
	if err != nil {
		return nil, err
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = -1, -1
	return newUser(name, c)
}

// as is user for tests.
func (w *world) as(t *testing.T, name string, groups ...string) *user {
	t.Helper()
	u, err := w.user(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// object parses YAML.
func object(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return o
}

// resourceOf is the resource of an object: the plural of its kind.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := o.GroupVersionKind()
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

// create creates an object in a namespace.
func (u *user) create(namespace string, o *unstructured.Unstructured, subresources ...string) (*unstructured.Unstructured, error) {
	return u.dynamic.Resource(resourceOf(o)).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{}, subresources...)
}

// dryRun is create without effect.
func (u *user) dryRun(namespace string, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return u.dynamic.Resource(resourceOf(o)).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// patch merges into an object.
func (u *user) patch(o *unstructured.Unstructured, patch string, subresources ...string) error {
	_, err := u.dynamic.Resource(resourceOf(o)).Namespace(o.GetNamespace()).Patch(context.Background(), o.GetName(), "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// pod is a pod that asks for GPUs of gpu-scheduler; change may make it anything else.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	grace := int64(0)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "main", Image: "pause"}},
		},
	}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func label(key, value string) func(*v1.Pod)    { return func(p *v1.Pod) { p.Labels[key] = value } }
func annotate(key, value string) func(*v1.Pod) { return func(p *v1.Pod) { p.Annotations[key] = value } }

// submit creates a pod.
func (u *user) submit(namespace string, p *v1.Pod) (*v1.Pod, error) {
	return u.client.CoreV1().Pods(namespace).Create(context.Background(), p, metav1.CreateOptions{})
}

// admitted creates a pod that must be admitted, and removes it after the test.
func (w *world) admitted(t *testing.T, u *user, namespace string, p *v1.Pod) *v1.Pod {
	t.Helper()
	out, err := u.submit(namespace, p)
	if err != nil {
		t.Fatalf("%s in %s: %v", u.name, namespace, err)
	}
	t.Cleanup(func() { w.remove(out) })
	return out
}

func (w *world) remove(p *v1.Pod) {
	now := int64(0)
	_ = w.admin.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// refused says whether an error is a refusal that has all the words.
func refused(err error, words ...string) string {
	if err == nil {
		return "admitted"
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			return fmt.Sprintf("refused without the words %q: %v", word, err)
		}
	}
	return ""
}

// eventually waits until a condition holds; it says what was last seen when it never does.
func eventually(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s; last seen: %s", what, seen)
		}
	}
}

// waits is the reason and message of a pod's PodScheduled condition.
func waits(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
