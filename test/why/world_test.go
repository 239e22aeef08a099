// Package why tests the question "why does it wait?" on a real API server, from outside:
// dozens of situations in which pods wait, each in a namespace of its own on one cluster.
// Each must be told by its code, with the numbers, and with something that helps; where it
// is cheap, what is said to help is done, by the very command of the answer, and the pods
// must start.
package why

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

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
	*cluster.World
	// askers ask the schedulers as the operator, by the scheduler's name.
	askers map[string]cluster.Asker
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
	w := shared.Get(t, func() *world { return startWorld(t) })
	return &world{w.In(t), w.askers}
}

// callers ask: the operator everything, the tenant about pods of its own namespace.
var callers = cluster.Accounts(
	cluster.Account{Namespace: "ops", Name: "operator", Everywhere: []string{"everything"}},
	cluster.Account{Namespace: "tenant", Name: "me", Everywhere: []string{"asks"}, Own: []string{"list-pods"}},
)

// objects of the cluster: a role, and an admission policy that refuses bindings.
const objects = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: asks}
rules: [{nonResourceURLs: [/query/*], verbs: [get, post]}]
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

func startWorld(t *testing.T) *world {
	w := &world{World: cluster.Open(t, cluster.Options{
		Programs:  []string{"kubectl", "gpu-scheduler"},
		Manifests: cluster.Manifests([]byte(objects), callers),
		Fleet:     pools,
	}), askers: map[string]cluster.Asker{}}
	w.scheduler(names.SchedulerName, "gpu-scheduler", string(config.Scheduler()))
	for name, args := range map[string]string{
		strictScheduler:  "{backfill: false, preemption: false, autoscaling: {enabled: true}}",
		keepingScheduler: "{reservations: 8, patience: 1s, backfill: true, preemption: false}",
	} {
		w.scheduler(name, name, fmt.Sprintf(otherConfig, name, name, args))
	}
	return w
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
func (w *world) scheduler(name, lease, configuration string) {
	w.T.Helper()
	w.Start(local.Component{Name: "gpu-scheduler", As: name, Config: []byte(configuration), Answers: true, Flags: []string{cluster.Alone}})
	w.askers[name] = cluster.AskerFor(w.Endpoint(lease, nil)).Bearer(w.Token("ops", "operator"))
}

// place is a situation's namespace, pool and scheduler.
type place struct {
	*world
	// pool that its pods are bound to by nodeSelector; empty: any.
	pool      string
	scheduler string
}

// in is a place in a namespace, with the scheduler of that name.
func (w *world) in(t *testing.T, namespace, pool, scheduler string) *place {
	if scheduler == "" {
		scheduler = names.SchedulerName
	}
	return &place{&world{w.In(t).Within(namespace), w.askers}, pool, scheduler}
}

// ask asks a question about an object of a namespace; more are further parameters.
func (p *place) ask(a cluster.Asker, path, namespace, name, more string) cluster.Answer {
	p.T.Helper()
	return a.Do(p.T, http.MethodGet, path+"?"+url.Values{"namespace": {namespace}, "name": {name}}.Encode()+more, nil)
}

// why asks about an object; kind may be empty.
func (p *place) why(kind, name string) *apiquery.Why {
	p.T.Helper()
	answer := p.ask(p.askers[p.scheduler], apiquery.PathWhy, p.Namespace, name, "&kind="+kind)
	if answer.Status != http.StatusOK {
		p.T.Fatalf("why %s %s: %d %s", kind, name, answer.Status, answer.Text)
	}
	return cluster.Decode[apiquery.Why](p.T, answer.Text)
}

// apply creates objects from YAML; NS is the situation's namespace.
func (p *place) apply(text string) {
	p.T.Helper()
	p.Apply(strings.ReplaceAll(text, "NS", p.Namespace))
}

// run runs a command of an answer, or another, in a shell with kubectl.
func (p *place) run(command string) {
	p.T.Helper()
	cmd := exec.CommandContext(p.T.Context(), "bash", "-c", command)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "PATH="+p.Bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.T.Fatalf("%s: %v: %s", command, err, out)
	}
}

// pod creates a pod that asks for GPUs.
func (p *place) pod(name string, gpus int, changes ...cluster.Change) *v1.Pod {
	p.T.Helper()
	pod := cluster.Pod(name, gpus)
	pod.Spec.SchedulerName = p.scheduler
	if p.pool != "" {
		cluster.On("pool", p.pool)(pod)
	}
	for _, c := range changes {
		c(pod)
	}
	return p.Create(pod)
}

// gang creates members that start together.
func (p *place) gang(name string, from, to, size, gpus int, changes ...cluster.Change) {
	p.T.Helper()
	for i := from; i < to; i++ {
		p.pod(fmt.Sprintf("%s-%d", name, i), gpus, append(changes, cluster.Gang(name, size))...)
	}
}

// The changes that situations make to pods.
var (
	label, annotate = cluster.Label, cluster.Annotate
	model, needs    = cluster.Model, cluster.Needs
	inQueue         = cluster.Queue
)
