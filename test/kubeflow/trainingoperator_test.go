package kubeflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/test/cluster"
)

const labelJob = "training.kubeflow.org/job-name"

// samples are training-operator's own, one of each kind, with the number of their pods.
var samples = []struct {
	resource, path string
	pods           int
}{
	{"pytorchjobs", "examples/pytorch/simple.yaml", 2},
	{"tfjobs", "examples/tensorflow/simple.yaml", 2},
	{"mpijobs", "examples/mpi/tensorflow-mnist.yaml", 3},
	{"xgboostjobs", "examples/xgboost/xgboostjob.yaml", 3},
	{"paddlejobs", "examples/paddlepaddle/simple-gpu.yaml", 2},
	{"jaxjobs", "examples/jax/cpu-demo/demo.yaml", 2},
}

// TestTrainingOperator: jobs of all kinds without any label of ours.
func TestTrainingOperator(t *testing.T) {
	t.Parallel()
	w := cluster.ForTest(t, cluster.Whole("pools: [{name: n, count: 7, gpu: {model: A100-80GB, count: 8}}]").
		With(cluster.Operator{Name: "training-operator"}))
	t.Run("guide", func(t *testing.T) {
		w := w.In(t)
		w.AddQueue("training", "{}") // as tangram up makes it
		w.Apply(w.Guide("kubeflow.md")[0])
		w.BoundAll(labelJob+"=train", 4)
		w.Remove(kubeflow("pytorchjobs"), "train")
		w.Gone()
	})
	t.Run("samples at twice the capacity", func(t *testing.T) { contention(w.In(t)) })
	t.Run("elastic", func(t *testing.T) { elastic(w.In(t)) })
	t.Run("scheduling policy", func(t *testing.T) { policy(w.In(t)) })
}

// contention: 14 pods of six kinds, 7 nodes.
func contention(w *cluster.World) {
	size, resource := map[string]int{}, map[string]string{}
	for _, s := range samples {
		name := strings.TrimSuffix(s.resource, "jobs")
		size[name], resource[name] = s.pods, s.resource
		apply(w, onGPUs(sample(w, "training-operator", s.path), name))
	}
	gangOf := func(p *v1.Pod) (string, int) {
		name := p.Labels[labelJob]
		if resource[name] == "" {
			return "", 0 // it is being deleted
		}
		return name, size[name]
	}
	for len(resource) > 0 {
		for _, name := range w.WholeGangs(1, gangOf) {
			w.Remove(kubeflow(resource[name]), name)
			delete(resource, name)
		}
	}
	w.Gone()
}

// elastic: the least number of workers starts together, the others when there is room.
func elastic(w *cluster.World) {
	job := onGPUs(sample(w, "training-operator", "examples/pytorch/elastic/echo/echo.yaml"), "echo")
	for path, n := range map[string]int64{"spec.elasticPolicy.minReplicas": 6, "spec.elasticPolicy.maxReplicas": 9, "spec.pytorchReplicaSpecs.Worker.replicas": 9} {
		w.Must(unstructured.SetNestedField(job.Object, n, strings.Split(path, ".")...))
	}
	apply(w, job)
	w.Eventually("7 of 9 workers run, the least is 6", func() (bool, string) {
		bound, pods := 0, w.Pods(labelJob+"=echo")
		for _, p := range pods {
			if p.Spec.NodeName != "" {
				bound++
			}
		}
		return bound == 7 && len(pods) == 9, fmt.Sprintf("%d of %d", bound, len(pods))
	})
	w.Remove(kubeflow("pytorchjobs"), "echo")
	w.Gone()
}

// policy: schedulingPolicy counts as if the operator had made a PodGroup of it.
func policy(w *cluster.World) {
	w.AddQueue("small", "{capability: {nvidia.com/gpu: 16}}")
	job := func(name, scheduling string) {
		o := onGPUs(sample(w, "training-operator", "examples/pytorch/simple.yaml"), name)
		w.Set(o, scheduling, "spec", "runPolicy", "schedulingPolicy")
		apply(w, o)
	}
	job("in-queue", "{queue: small}")
	w.BoundAll(labelJob+"=in-queue", 2)
	for _, p := range w.Pods(labelJob + "=in-queue") {
		if q := p.Annotations["tangram.dev/charged-queue"]; q != "small" {
			w.T.Errorf("%s is charged to queue %q", p.Name, q)
		}
	}
	job("over", "{queue: small}")
	w.WaitAll(labelJob+"=over", 2, "queue small may use 16 nvidia GPUs, 16 nvidia GPUs in use, needs 16 nvidia GPUs")
	job("wrong", "{minAvailable: 5}")
	w.WaitAll(labelJob+"=wrong", 2, "PyTorchJob default/wrong: spec.runPolicy.schedulingPolicy.minAvailable: 5 is not from 1 to 2")
	w.Remove(kubeflow("pytorchjobs"), "in-queue")
	w.BoundAll(labelJob+"=over", 2)
}

// TestVolcanoGangs: training-operator makes PodGroups, and pods when they are Inqueue. Under
// the policies for tenants.
func TestVolcanoGangs(t *testing.T) {
	t.Parallel()
	w := cluster.ForTest(t, cluster.Whole("pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}]", config.TenantRoles(), config.TenantPolicies(), config.TenantBindings()).
		With(cluster.Operator{Name: "training-operator", Args: []string{"--gang-scheduler-name=volcano"}}))
	w.Apply(`
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: research}, spec: {capability: {nvidia.com/gpu: 16}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 1000}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: research}, rules: [
	{apiGroups: [scheduling.volcano.sh], resources: [queues], resourceNames: [research], verbs: [use]},
	{apiGroups: [scheduling.k8s.io], resources: [priorityclasses], resourceNames: [urgent], verbs: [use]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: research},
	roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: research},
	subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:default"}]}
`)
	submit := func(name, scheduling string) {
		t.Helper()
		o := onGPUs(sample(w, "training-operator", "examples/pytorch/simple.yaml"), name)
		eachPodSpec(o.Object, func(_, spec map[string]any) { delete(spec, "schedulerName") }) // the operator sets it
		w.Set(o, scheduling, "spec", "runPolicy", "schedulingPolicy")
		apply(w, o)
	}
	phase := func(name, want, condition string) {
		t.Helper()
		w.Eventually("PodGroup "+name+" is "+want, func() (bool, string) {
			o := w.Object(cluster.PodGroups, name)
			if o == nil {
				return false, "no PodGroup"
			}
			got, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			why := cluster.Condition(o, "Unschedulable")
			return got == want && strings.Contains(why, condition), got + " " + why
		})
	}

	submit("first", "{queue: research}")
	w.BoundAll(labelJob+"=first", 2)
	phase("first", "Running", "")

	// Its queue is full, as soon as gpu-controller has counted it: no pods, and a condition
	// that says why.
	w.Eventually("the queue is charged", func() (bool, string) {
		used, _, _ := unstructured.NestedString(w.Object(cluster.Queues, "research").Object, "status", "allocated", "nvidia.com/gpu")
		return used == "16", used
	})
	submit("second", "{queue: research}")
	phase("second", "Pending", "waits for quota: queue research may use 16 nvidia GPUs, 16 nvidia GPUs in use, needs 16 nvidia GPUs")
	if pods := w.Pods(labelJob + "=second"); len(pods) > 0 {
		t.Errorf("%d pods exist", len(pods))
	}

	// A PodGroup that is Inqueue and has no pods holds nothing.
	for i := range 8 {
		w.Apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: empty-%d, namespace: default}, spec: {minMember: 2, minResources: {nvidia.com/gpu: 16}}}", i))
		phase(fmt.Sprintf("empty-%d", i), "Inqueue", "")
	}
	submit("other", "{}")
	w.BoundAll(labelJob+"=other", 2)

	// A pod that is lost is replaced, though the queue has no room for a second gang.
	lost := w.Pods(labelJob + "=first")[0]
	w.Delete(lost.Name)
	w.Eventually("the lost pod is replaced", func() (bool, string) {
		pods := w.Pods(labelJob + "=first")
		uids := fmt.Sprint(slices.IndexFunc(pods, func(p v1.Pod) bool { return p.UID == lost.UID }))
		return len(pods) == 2 && uids == "-1" && pods[0].Spec.NodeName != "" && pods[1].Spec.NodeName != "", fmt.Sprint(len(pods), uids)
	})

	// A gang with a class that may preempt is admitted, and preempts.
	submit("urgent", "{queue: research, priorityClass: urgent}")
	w.BoundAll(labelJob+"=urgent", 2)
	w.Eventually("the first job made room", func() (bool, string) {
		for _, p := range w.Pods(labelJob + "=first") {
			if p.Spec.NodeName != "" {
				return false, p.Name
			}
		}
		return true, ""
	})
	w.Remove(kubeflow("pytorchjobs"), "urgent")
	w.Remove(kubeflow("pytorchjobs"), "first")
	w.BoundAll(labelJob+"=second", 2) // it was woken

	t.Run("a tenant without the right", func(t *testing.T) { forbidden(w.In(t)) })
}

// forbidden: a job may not name a queue or a class that its namespace may not use.
func forbidden(w *cluster.World) {
	w.Apply(`
{apiVersion: v1, kind: Namespace, metadata: {name: strangers}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: jobs, namespace: strangers}, rules: [{apiGroups: [kubeflow.org], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: jobs, namespace: strangers},
	roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: jobs}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]}
`)
	mallory := w.Within("strangers").User("mallory")
	for _, s := range samples {
		for scheduling, want := range map[string]string{
			"{queue: research}":       `spec.runPolicy.schedulingPolicy.queue: namespace "strangers" may not use queue "research"`,
			"{priorityClass: urgent}": `spec.runPolicy.schedulingPolicy.priorityClass: namespace "strangers" may not use priority class "urgent"`,
			"{queue: default}":        "",
		} {
			o := onGPUs(sample(w, "training-operator", s.path), "x")
			o.SetNamespace("strangers")
			w.Set(o, scheduling, "spec", "runPolicy", "schedulingPolicy")
			err := mallory.DryRun(kubeflow(s.resource), o)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				w.T.Errorf("%s with %s: got %v, want %q", s.resource, scheduling, err, want)
			}
		}
	}
}
