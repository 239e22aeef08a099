// Package tenants tests what tenants may and may not do, on a real API server: every test
// acts as a user with a client certificate and only a tenant's roles, through the manifests
// that people apply (config/tenants, examples/tenants). All tests share one cluster.
package tenants

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is the cluster that all tests share.
type world struct {
	*cluster.World
	admin *user
}

// user is what one user's client certificate allows.
type user struct {
	name    string
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	return shared.Get(t, func() *world { return startWorld(t) })
}

func startWorld(t *testing.T) *world {
	docs := [][]byte{config.TenantRoles(), config.TenantPolicies(), config.TenantBindings()}
	o := cluster.Whole("pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}, {name: x, count: 1, gpu: {model: A100-80GB, count: 8}}]", append(docs, examples.Tenants()...)...)
	// Kubernetes' own PodGroups name a priority class, too.
	o.Kubernetes.APIServer = []string{"--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"}
	w := &world{World: cluster.Open(t, o)}
	w.admin = &user{"tangram-admin", w.RESTConfig(), w.Client, w.Dynamic}
	w.enforced()
	return w
}

// enforced waits until the API server applies every policy: it learns of them by a watch.
func (w *world) enforced() {
	w.T.Helper()
	b, err := w.user("probe", "team-b")
	w.Must(err)
	probes := map[string]*unstructured.Unstructured{
		"pods":      object(`{apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {tangram.dev/queue: team-a}}, spec: {containers: [{name: c, image: pause}]}}`),
		"podgroups": object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: probe}, spec: {minMember: 1, queue: team-a}}`),
		"workloads": object(`{apiVersion: batch/v1, kind: Job, metadata: {name: probe}, spec: {template: {metadata: {labels: {tangram.dev/queue: team-a}}, spec: {restartPolicy: Never, containers: [{name: c, image: pause}]}}}}`),
		"objects":   object(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: probe}, action: CloseQueue, target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: team-a, uid: x}}`),
	}
	w.Complete("policies are in force", func() string {
		for policy, probe := range probes {
			if _, err := b.dryRun("team-b", probe); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				return fmt.Sprintf("policy %s: %v", policy, err)
			}
		}
		return ""
	})
}

// user is a user of some groups, with a client certificate.
func (w *world) user(name string, groups ...string) (*user, error) {
	c, err := w.As(name, groups...)
	if err != nil {
		return nil, err
	}
	return newUser(name, c)
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

// pod is a pod that asks for GPUs of gpu-scheduler, with a name of its own; change may make
// it anything else.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	p := cluster.Pod("", gpus, append([]cluster.Change{cluster.Immediate}, change...)...)
	p.GenerateName = name + "-"
	return p
}

func label(key, value string) func(*v1.Pod)    { return cluster.Label(key, value) }
func annotate(key, value string) func(*v1.Pod) { return cluster.Annotate(key, value) }

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
	await.Eventually(t, what, 2*time.Minute, holds)
}

// waits is the reason and message of a pod's PodScheduled condition.
func waits(p *v1.Pod) string {
	if c := cluster.Scheduled(p); c.Type != "" {
		return c.Reason + ": " + c.Message
	}
	return ""
}
