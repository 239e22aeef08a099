// Package why tests the question "why does it wait?" on a real API server, from outside:
// dozens of situations in which pods wait, each in a namespace of its own on one cluster.
// Each must be told by its code, with the numbers, and with something that helps; where it
// is cheap, what is said to help is done, by the very command of the answer, and the pods
// must start.
package why

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// patience is for what takes two seconds on a quiet machine.
const patience = 60 * time.Second

// pools: one for each situation in which it matters what is free. Pool aaa is free, and its
// node is the first by name.
const pools = `
pools:
- {name: aaa, count: 1, gpu: {model: A100-80GB, count: 8}, labels: {pool: aaa}, cpu: 96, memory: 768Gi}
- {name: free, count: 2, gpu: {model: A100-80GB, count: 8}, labels: {pool: free}}
- {name: taken, count: 1, gpu: {model: A100-80GB, count: 4}, labels: {pool: taken}}
- {name: part, count: 1, gpu: {model: A100-80GB, count: 3}, labels: {pool: part}}
- {name: cordon, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: cordon}}
- {name: isolated, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: isolated}}
- {name: taint, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: taint}, taints: [{key: keep, value: out, effect: NoSchedule}]}
- {name: sick, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: sick}}
- {name: held, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: held}}
- name: links
  count: 1
  labels: {pool: links}
  gpu:
    model: V100-32GB
    count: 8
    links: [{between: [0, 1, 2, 3], class: NVLink, count: 2}, {between: [4, 5, 6, 7], class: NVLink, count: 2}]
- {name: rack, count: 4, gpu: {model: A100-80GB, count: 2}, labels: {pool: rack}, rack: {size: 2}}
- {name: cpu, count: 1, gpu: {model: A100-80GB, count: 4}, labels: {pool: cpu}, cpu: 8, memory: 64Gi}
- {name: port, count: 1, gpu: {model: A100-80GB, count: 4}, labels: {pool: port}}
- {name: quota, count: 1, gpu: {model: A100-80GB, count: 8}, labels: {pool: quota}}
- {name: low, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: low}}
- {name: victims, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: victims}}
- {name: l4, count: 1, gpu: {model: A10, count: 4}, labels: {pool: l4}}
- {name: mig, count: 1, gpu: {model: A100-80GB, count: 1, mig: true}, labels: {pool: mig}}
- {name: contest, count: 1, gpu: {model: A100-80GB, count: 2}, labels: {pool: contest}}
- {name: strict, count: 2, gpu: {model: A100-80GB, count: 4}, labels: {pool: strict}}
- {name: kept, count: 2, gpu: {model: A100-80GB, count: 4}, labels: {pool: kept}}
- {name: scale, count: 4, gpu: {model: A100-80GB, count: 2}, labels: {pool: scale}, rack: {size: 2}}
`

// world is the cluster: three schedulers, of which one is strict and asks autoscalers, and
// one keeps nodes early.
type world struct {
	*local.Cluster
	bin    string
	client kubernetes.Interface
	// ask are the schedulers' endpoints, by scheduler name.
	ask   map[string]apiquery.Endpoint
	token string
}

// Names of the other schedulers.
const (
	strictScheduler  = "strict-scheduler"
	keepingScheduler = "keeping-scheduler"
)

var shared struct {
	sync.Mutex
	world *world
	err   error
}

// TestMain stops the shared cluster after the last test.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil { // they mostly wait
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
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
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		dir, _ = filepath.Abs(filepath.Join("..", "..", "bin"))
	}
	if err := local.RequirePrograms(dir, "etcd", "kube-apiserver", "kubectl", "gpu-scheduler"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		shared.world, shared.err = startWorld(dir)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// objects of the cluster: who asks, and what VAP refuses.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: ops}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: ops}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
- {nonResourceURLs: [/query/*], verbs: [get, post]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects: [{kind: ServiceAccount, name: operator, namespace: ops}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: asks}
rules: [{nonResourceURLs: [/query/*], verbs: [get, post]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
# The other schedulers have Leases of their own.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: other-leases}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: other-leases}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: other-leases}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:tangram:gpu-scheduler"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-binding}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {bind: never}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}]
  validations: [{expression: "false", message: nothing starts here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-binding}
spec: {policyName: no-binding, validationActions: [Deny]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: middle}
value: 500
`

func startWorld(bin string) (w *world, err error) {
	dir, err := os.MkdirTemp("", "tangram-why-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: dir, Bin: bin})
	if err != nil {
		return nil, err
	}
	w = &world{Cluster: cluster, bin: bin, ask: map[string]apiquery.Endpoint{}}
	defer func() {
		if err != nil {
			_ = cluster.Stop()
		}
	}()
	settings := cluster.RESTConfig()
	settings.QPS, settings.Burst = -1, -1
	if w.client, err = kubernetes.NewForConfig(settings); err != nil {
		return nil, err
	}
	for _, doc := range [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), []byte(objects)} {
		if err := cluster.ApplyManifests(ctx, doc); err != nil {
			return nil, err
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte(pools))
	if err != nil {
		return nil, err
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		return nil, err
	}
	if err := w.scheduler(ctx, names.SchedulerName, "gpu-scheduler", string(config.Scheduler())); err != nil {
		return nil, err
	}
	for name, args := range map[string]string{
		strictScheduler:  "{backfill: false, preemption: false, autoscaling: {enabled: true}}",
		keepingScheduler: "{reservations: 8, patience: 1s, backfill: true, preemption: false}",
	} {
		if err := w.scheduler(ctx, name, name, fmt.Sprintf(otherConfig, name, name, args)); err != nil {
			return nil, err
		}
	}
	if w.token, err = w.tokenOf(ctx, "ops", "operator"); err != nil {
		return nil, err
	}
	return w, nil
}

// otherConfig is a scheduler of another name with other arguments.
const otherConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false, resourceName: %s, resourceNamespace: kube-system}
clientConnection: {qps: 5000, burst: 5000}
profiles:
- schedulerName: %s
  plugins:
    filter: {enabled: [{name: GPUFilter}]}
    score: {enabled: [{name: GPUScore, weight: 10}]}
  pluginConfig:
  - name: GPUQueue
    args: %s
`

// scheduler starts a scheduler and waits until its Lease says where it answers.
func (w *world) scheduler(ctx context.Context, name, lease, configuration string) error {
	file := filepath.Join(w.Dir(), name+".yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return err
	}
	kubeconfig, err := w.KubeconfigFor("system:tangram:gpu-scheduler")
	if err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	asked, err := local.FreePort()
	if err != nil {
		return err
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	if _, err = w.Run(ctx, local.Program{Name: name, Path: filepath.Join(w.bin, "gpu-scheduler"), Ready: ready,
		Args: append(w.ServeArgs(port, kubeconfig), "--config="+file, "--leader-elect=false", "--query-listen=127.0.0.1:"+strconv.Itoa(asked))}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		l, err := w.client.CoordinationV1().Leases("kube-system").Get(ctx, lease, metav1.GetOptions{})
		if err == nil && l.Annotations[apiquery.AnnotationEndpoint] != "" {
			var e apiquery.Endpoint
			if err := json.Unmarshal([]byte(l.Annotations[apiquery.AnnotationEndpoint]), &e); err != nil {
				return err
			}
			w.ask[name] = e
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s does not say where it answers: %w", name, ctx.Err())
}

// tokenOf is a service account's token.
func (w *world) tokenOf(ctx context.Context, namespace, name string) (string, error) {
	seconds := int64(3600)
	token, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// get asks a scheduler with a token.
func (w *world) get(ctx context.Context, scheduler, token, path string, params url.Values) (int, []byte, error) {
	e := w.ask[scheduler]
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: e.ServerName}, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.Address+path+"?"+params.Encode(), nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// place is a situation's namespace, pool and scheduler.
type place struct {
	*world
	t         *testing.T
	namespace string
	// pool that its pods are bound to by nodeSelector; empty: any.
	pool      string
	scheduler string
}

// why asks about an object; kind may be empty.
func (p *place) why(kind, name string) apiquery.Why {
	p.t.Helper()
	status, body, err := p.get(p.t.Context(), p.scheduler, p.token, apiquery.PathWhy, url.Values{"namespace": {p.namespace}, "name": {name}, "kind": {kind}})
	if err != nil || status != http.StatusOK {
		p.t.Fatalf("why %s %s: %d %s %v", kind, name, status, body, err)
	}
	var out apiquery.Why
	if err := json.Unmarshal(body, &out); err != nil {
		p.t.Fatalf("%v in %s", err, body)
	}
	return out
}

// eventually waits until something is true; the last answer says what is wrong.
func (p *place) eventually(what string, done func() (bool, string)) {
	p.t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ok, why := done()
		if ok {
			return
		}
		last = why
	}
	p.t.Fatalf("%s: not within %s: %s", what, patience, last)
}

// apply creates objects from YAML; NS is the situation's namespace.
func (p *place) apply(text string) {
	p.t.Helper()
	if err := p.ApplyManifests(p.t.Context(), []byte(strings.ReplaceAll(text, "NS", p.namespace))); err != nil {
		p.t.Fatal(err)
	}
}

// queue creates or changes a queue.
func (p *place) queue(name, spec string) {
	p.apply(fmt.Sprintf("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: %s}\nspec: %s\n", name, spec))
}

// run runs a command of an answer, or another, in a shell with kubectl.
func (p *place) run(command string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "bash", "-c", command)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "PATH="+p.bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// change makes a pod something else.
type change = func(*v1.Pod)

// pod creates a pod that asks for GPUs.
func (p *place) pod(name string, gpus int64, changes ...change) *v1.Pod {
	p.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{SchedulerName: p.scheduler, Containers: []v1.Container{{Name: "main", Image: "pause"}}},
	}
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	if p.pool != "" {
		pod.Spec.NodeSelector = map[string]string{"pool": p.pool}
	}
	for _, c := range changes {
		c(pod)
	}
	out, err := p.client.CoreV1().Pods(p.namespace).Create(p.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// gang creates members that start together.
func (p *place) gang(name string, from, to, size int, gpus int64, changes ...change) {
	p.t.Helper()
	for i := from; i < to; i++ {
		p.pod(fmt.Sprintf("%s-%d", name, i), gpus, append(changes, label(names.LabelGang, name), label(names.LabelGangSize, strconv.Itoa(size)))...)
	}
}

// bound waits until pods are placed.
func (p *place) bound(pods ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprint(pods, " start"), func() (bool, string) {
		for _, name := range pods {
			pod, err := p.client.CoreV1().Pods(p.namespace).Get(p.t.Context(), name, metav1.GetOptions{})
			if err != nil || pod.Spec.NodeName == "" {
				return false, fmt.Sprintf("%s: %v; %s", name, err, conditions(pod))
			}
		}
		return true, ""
	})
}

func conditions(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return "nothing is said"
}

// gone deletes a pod at once.
func (p *place) gone(name string) {
	p.t.Helper()
	now := int64(0)
	if err := p.client.CoreV1().Pods(p.namespace).Delete(p.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		p.t.Fatal(err)
	}
}

func label(key, value string) change    { return func(p *v1.Pod) { p.Labels[key] = value } }
func annotate(key, value string) change { return func(p *v1.Pod) { p.Annotations[key] = value } }

// needs adds requests, and limits for what needs them.
func needs(name, amount string) change {
	return func(p *v1.Pod) {
		r := &p.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		if r.Limits == nil {
			r.Limits = v1.ResourceList{}
		}
		r.Requests[v1.ResourceName(name)] = resource.MustParse(amount)
		if strings.Contains(name, "/") {
			r.Limits[v1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
}

// decode reads an answer.
func decode[A any](t *testing.T, body []byte) (out A) {
	t.Helper()
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out
}
