// Package why tests the question "why does it wait?" on a real API server, from outside:
// dozens of situations in which pods wait, each in a namespace of its own on one cluster.
// Each must be told by its code, with the numbers, and with something that helps; where it
// is cheap, what is said to help is done, by the very command of the answer, and the pods
// must start.
package why

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
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
	*cluster.Cluster
	client kubernetes.Interface
	// ask are the schedulers, by name.
	ask   map[string]scheduler
	token string
}

// scheduler is where one answers.
type scheduler struct {
	url  string
	http *http.Client
}

// Names of the other schedulers.
const (
	strictScheduler  = "strict-scheduler"
	keepingScheduler = "keeping-scheduler"
)

var shared cluster.Shared[*world]

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil { // they mostly wait
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(shared.Run(m))
}

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	bin := cluster.Bin(t, "kubectl", "gpu-scheduler")
	return shared.Get(t, func() (*world, error) { return startWorld(bin) })
}

// operator is who asks.
var operator = cluster.Accounts(cluster.Account{Namespace: "ops", Name: "operator", Everywhere: []string{"everything"}})

// objects of the cluster: the operator's rights, and what VAP refuses.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: ops}
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

func startWorld(bin string) (*world, error) {
	c, err := cluster.Start(cluster.Options{
		Kubernetes: local.Options{Bin: bin},
		Manifests:  [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), []byte(objects), operator},
		Fleet:      pools,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w := &world{Cluster: c, client: c.Client, ask: map[string]scheduler{}}
	if w.token, err = c.Token(ctx, "ops", "operator"); err != nil {
		return nil, c.EndIf(err)
	}
	return w, c.EndIf(w.schedulers(ctx))
}

func (w *world) schedulers(ctx context.Context) error {
	if err := w.scheduler(ctx, names.SchedulerName, "gpu-scheduler", string(config.Scheduler())); err != nil {
		return err
	}
	for name, args := range map[string]string{
		strictScheduler:  "{backfill: false, preemption: false, autoscaling: {enabled: true}}",
		keepingScheduler: "{reservations: 8, patience: 1s, backfill: true, preemption: false}",
	} {
		if err := w.scheduler(ctx, name, name, fmt.Sprintf(otherConfig, name, name, args)); err != nil {
			return err
		}
	}
	return nil
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
	if _, err := w.Launch(ctx, local.Component{Name: "gpu-scheduler", As: name, Config: []byte(configuration), Answers: true, Flags: []string{cluster.Alone}}); err != nil {
		return err
	}
	e, err := w.Endpoint(ctx, lease, nil)
	w.ask[name] = scheduler{"https://" + e.Address, cluster.HTTPClient(e)}
	return err
}

// tokenOf is a service account's token.
func (w *world) tokenOf(ctx context.Context, namespace, name string) (string, error) {
	return w.Token(ctx, namespace, name)
}

// get asks a scheduler with a token.
func (w *world) get(ctx context.Context, scheduler, token, path string, params url.Values) (int, []byte, error) {
	s := w.ask[scheduler]
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+params.Encode(), nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.http.Do(r)
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
	await.Eventually(p.t, what, patience, done)
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
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "PATH="+p.Bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// change makes a pod something else.
type change = func(*v1.Pod)

// pod creates a pod that asks for GPUs.
func (p *place) pod(name string, gpus int64, changes ...change) *v1.Pod {
	p.t.Helper()
	pod := cluster.Pod(p.namespace, name, gpus)
	pod.Spec.SchedulerName = p.scheduler
	if p.pool != "" {
		pod.Spec.NodeSelector = map[string]string{"pool": p.pool}
	}
	for _, c := range changes {
		c(pod)
	}
	return p.Create(p.t, pod)
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
	p.Bound(p.t, patience, p.namespace, pods...)
}

// gone deletes a pod at once.
func (p *place) gone(name string) {
	p.t.Helper()
	p.Delete(p.t, p.namespace, name)
}

func label(key, value string) change    { return cluster.Label(key, value) }
func annotate(key, value string) change { return cluster.Annotate(key, value) }

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
