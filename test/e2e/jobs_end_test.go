package e2e

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
	"github.com/tangram-dev/tangram/test/cluster"
)

// deletedInEveryPhase: whatever a job is doing, what it has goes with it.
func deletedInEveryPhase(w *world) {
	const plugins = "plugins: {svc: [], ssh: []}\nvolumes: [{mountPath: /data, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n"
	// No controller binds claims here: a pod with one is Pending for ever.
	w.Apply(jobManifest("del-pending", plugins, task("worker", 2)))
	const names = "plugins: {svc: [], ssh: []}\n"
	w.Apply(jobManifest("del-running", names, task("worker", 2)))
	w.Apply(jobManifest("del-completed", names, task("worker", 1, "runs: 1s")))
	w.Apply(jobManifest("del-failed", names, task("worker", 1)))
	w.Apply(jobManifest("del-aborted", names, task("worker", 1)))
	w.Apply(jobManifest("del-restarting", names+"policies: [{event: PodFailed, action: RestartJob}]", task("worker", 2)))
	w.reaches("del-pending", batch.Pending)
	w.reaches("del-running", batch.Running)
	w.running("del-failed", 1)
	w.ends("del-failed-worker-0", 1)
	w.reaches("del-failed", batch.Failed)
	w.running("del-aborted", 1)
	w.command("Job", "del-aborted", bus.AbortJobAction)
	w.reaches("del-aborted", batch.Aborted)
	w.reaches("del-completed", batch.Completed)
	// A pod that does not go keeps its job Restarting.
	w.running("del-restarting", 2)
	w.finalizer("del-restarting-worker-1", "example.com/stay")
	w.ends("del-restarting-worker-0", 1)
	w.reaches("del-restarting", batch.Restarting)

	for _, name := range []string{"del-pending", "del-running", "del-completed", "del-failed", "del-aborted", "del-restarting"} {
		w.Remove(volcanoJobs, name)
	}
	w.finalizer("del-restarting-worker-1", "")
	w.Eventually("all they had is gone", func() (bool, string) {
		var left []string
		note := func(kind, name string) {
			if strings.HasPrefix(name, "del-") {
				left = append(left, kind+" "+name)
			}
		}
		for _, kind := range []string{"pods", "services", "configmaps", "secrets", "persistentvolumeclaims"} {
			for _, o := range w.List(v1.SchemeGroupVersion.WithResource(kind)) {
				note(kind, o.GetName())
			}
		}
		for _, o := range w.List(cluster.PodGroups) {
			note("podgroups", o.GetName())
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
}

// finalizer puts one on a pod, or takes all away.
func (w *world) finalizer(pod, name string) {
	w.T.Helper()
	list := "null"
	if name != "" {
		list = fmt.Sprintf("[%q]", name)
	}
	patch := fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, list)
	w.Patch(cluster.Pods, pod, patch)
}

// madeAnew: a job that is deleted and made again at once under its name waits for what
// its forerunner had, and takes none of it over.
func madeAnew(w *world) {
	manifest := jobManifest("anew", "plugins: {svc: [], ssh: []}", task("worker", 2))
	w.Apply(manifest)
	before := w.running("anew", 2)
	w.Remove(volcanoJobs, "anew")
	w.Apply(manifest)
	job := w.reaches("anew", batch.Running)
	for name, p := range w.running("anew", 2) {
		if p.UID == before[name].UID || !metav1.IsControlledBy(&p, job) {
			w.T.Errorf("%s is of the job before", name)
		}
	}
	secret, err := w.Client.CoreV1().Secrets("default").Get(context.Background(), "anew-ssh", metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(secret, job) {
		w.T.Errorf("the key is of the job before: %v", err)
	}
}

// cannotBeCompleted: a gang that lost a member for which there is no room any more is
// Unknown, its queue counts it so, and a policy may end that.
func cannotBeCompleted(w *world) {
	w.Apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: narrow}, spec: {capability: {nvidia.com/gpu: 64}}}")
	whole := strings.NewReplacer("nvidia.com/gpu: 1", "nvidia.com/gpu: 8", "restartPolicy: Never", "restartPolicy: Never\n        nodeSelector: {pair: \"yes\"}").Replace(task("worker", 2))
	for _, node := range []string{"a100-10", "a100-11"} {
		w.label(node, "pair", "yes")
	}
	w.Apply(jobManifest("broken", "queue: narrow\npolicies: [{event: Unknown, action: TerminateJob, timeout: 3s}]", whole))
	pods := w.running("broken", 2)
	job := w.reaches("broken", batch.Running)
	w.label(pods["broken-worker-1"].Spec.NodeName, "pair", "no")
	w.Delete("broken-worker-1")
	w.Eventually("the gang is Unknown", func() (bool, string) {
		st := w.group(blueprint.GroupName(job)).Status
		return st.Phase == scheduling.PodGroupUnknown && st.Running == 1 && len(st.Conditions) == 1 &&
			st.Conditions[0].Type == scheduling.PodGroupUnschedulableType && strings.Contains(st.Conditions[0].Message, "nodes fit: "), fmt.Sprintf("%+v", st)
	})
	w.says("broken", "Unschedulable", "nodes fit: ")
	w.Eventually("its queue counts it", func() (bool, string) {
		st := w.queue("narrow")
		gpus := st.Allocated["nvidia.com/gpu"]
		return st.Unknown == 1 && st.Running == 0 && gpus.Value() == 8, fmt.Sprintf("%+v", st)
	})
	if st := w.reaches("broken", batch.Terminated).Status.State; st.Message != "some pods run and others cannot be scheduled" {
		w.T.Errorf("state %+v", st)
	}
}

// taskFails: containers that were restarted too often make a task fail, which the
// asterisk covers.
func taskFails(w *world) {
	w.Apply(jobManifest("crashes", `policies: [{event: "*", action: AbortJob}]`, task("worker", 2, "maxRetry: 2")))
	w.running("crashes", 2)
	restarted := func(pod string, times int32) {
		w.T.Helper()
		w.Eventually("pod "+pod+" is restarted in place", func() (bool, string) {
			p := w.Get(pod)
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", RestartCount: times, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
			_, err := w.Client.CoreV1().Pods("default").UpdateStatus(context.Background(), p, metav1.UpdateOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	restarted("crashes-worker-0", 2)
	restarted("crashes-worker-1", 1)
	if st := w.reaches("crashes", batch.Aborted).Status.State; st.Message != "containers of task worker were restarted 3 times" {
		w.T.Errorf("state %+v", st)
	}
}

// enoughSucceeded: minSuccess ends a job, and RestartPartition restarts one partition.
func enoughSucceeded(w *world) {
	w.Apply(jobManifest("enough", "minSuccess: 1", task("worker", 4,
		"partitionPolicy: {totalPartitions: 2, partitionSize: 2}", "policies: [{event: PodFailed, action: RestartPartition}]")))
	before := w.running("enough", 4)
	w.reaches("enough", batch.Running)
	w.ends("enough-worker-3", 1)
	w.Eventually("the second partition is new", func() (bool, string) {
		now := w.podsOf("enough")
		fresh := ""
		for name, p := range now {
			if p.UID != before[name].UID {
				fresh += " " + name
			}
		}
		return len(now) == 4 && strings.Contains(fresh, "worker-2") && strings.Contains(fresh, "worker-3"), fresh
	})
	for name, p := range w.running("enough", 4) {
		if old := p.UID == before[name].UID; old != (name == "enough-worker-0" || name == "enough-worker-1") {
			w.T.Errorf("%s: is it old? %v", name, old)
		}
	}
	w.reaches("enough", batch.Running)
	w.ends("enough-worker-0", 0)
	if st := w.reaches("enough", batch.Completed).Status; st.Succeeded != 1 || st.Running != 0 || st.State.Reason != "MinSuccess" {
		w.T.Errorf("status %+v", st)
	}
}

// stoppedWhileGrowing: who aborts a large job need not wait until all its pods exist.
func stoppedWhileGrowing(w *world) {
	const replicas = 1200
	made := map[types.UID]bool{}
	pods, err := w.Client.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{LabelSelector: batch.JobNameKey + "=grows"})
	w.Must(err)
	defer pods.Stop()
	w.Apply(jobManifest("grows", "schedulerName: no-scheduler", task("worker", replicas)))
	for e := range pods.ResultChan() {
		if p, ok := e.Object.(*v1.Pod); ok && e.Type == watch.Added {
			made[p.UID] = true
		}
		if len(made) == 1 {
			w.command("Job", "grows", bus.AbortJobAction)
			break
		}
	}
	w.reaches("grows", batch.Aborted)
	w.Apply("{apiVersion: v1, kind: Pod, metadata: {name: mark, labels: {volcano.sh/job-name: grows}}, spec: {schedulerName: no-scheduler, containers: [{name: main, image: x}]}}")
	for e := range pods.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if ok && p.Name == "mark" {
			break // all that came before it were seen
		}
		if ok && e.Type == watch.Added {
			made[p.UID] = true
		}
	}
	if len(made) >= replicas {
		w.T.Errorf("all %d pods were made", len(made))
	}
}

// label sets a node's label.
func (w *world) label(node, key, value string) {
	w.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	w.Patch(cluster.Nodes, node, patch)
}
