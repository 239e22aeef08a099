package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// newJobWorld is a whole cluster: nodes start pods, owners' deletions cascade, and
// Volcano's kinds are served.
func newJobWorld(t *testing.T) *world {
	t.Helper()
	w := startWorld(t, local.Options{ControllerManager: true, KWOK: true},
		config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC())
	w.Fleet(`
pools:
- {name: a100, count: 12, gpu: {model: A100-80GB, count: 8}}
- {name: plain, count: 1}
`)
	w.Scheduler(nil)
	return w
}

// jobManifest is a job; fields are lines of its spec. Its pods ask for one GPU each
// and run until they are ended, unless a task says more.
func jobManifest(name, fields string, tasks ...string) string {
	text := "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + name + "}\nspec:\n"
	for line := range strings.SplitSeq(strings.TrimSpace(fields), "\n") {
		if line != "" {
			text += "  " + line + "\n"
		}
	}
	return text + "  tasks:\n" + strings.Join(tasks, "")
}

// task is one task of a job manifest; more is put beside its name.
func task(name string, replicas int, more ...string) string {
	text := fmt.Sprintf("  - name: %s\n    replicas: %d\n", name, replicas)
	annotations := "{}"
	for _, line := range more {
		if runtime, ok := strings.CutPrefix(line, "runs: "); ok {
			annotations = fmt.Sprintf("{tangram.dev/runtime: %s}", runtime)
			continue
		}
		text += "    " + line + "\n"
	}
	return text + "    template:\n      metadata: {annotations: " + annotations + "}\n" +
		"      spec:\n        restartPolicy: Never\n        containers:\n" +
		"        - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}\n"
}

// volcanoJobs are Volcano's.
var volcanoJobs = batch.SchemeGroupVersion.WithResource("jobs")

func (w *world) job(name string) *batch.Job {
	w.T.Helper()
	return cluster.Read[batch.Job](w.World, volcanoJobs, name)
}

func (w *world) queue(name string) scheduling.QueueStatus {
	w.T.Helper()
	if q := cluster.ReadIf[scheduling.Queue](w.World, cluster.Queues, name); q != nil {
		return q.Status
	}
	return scheduling.QueueStatus{}
}

// group is a PodGroup; the zero value when there is none.
func (w *world) group(name string) *scheduling.PodGroup {
	w.T.Helper()
	return cmp.Or(cluster.ReadIf[scheduling.PodGroup](w.World, cluster.PodGroups, name), &scheduling.PodGroup{})
}

// reaches waits until a job is in a phase, and returns it.
func (w *world) reaches(name string, phase batch.JobPhase) *batch.Job {
	w.T.Helper()
	var job *batch.Job
	w.Eventually(fmt.Sprintf("job %s is %s", name, phase), func() (bool, string) {
		job = w.job(name)
		st := job.Status
		return st.State.Phase == phase, fmt.Sprintf("%+v pending %d running %d succeeded %d failed %d terminating %d version %d retries %d",
			st.State, st.Pending, st.Running, st.Succeeded, st.Failed, st.Terminating, st.Version, st.RetryCount)
	})
	return job
}

// says waits until a job that does not start says why.
func (w *world) says(name, reason, message string) {
	w.T.Helper()
	w.Eventually("job "+name+" says why it waits", func() (bool, string) {
		st := w.job(name).Status.State
		return st.Phase == batch.Pending && st.Reason == reason && strings.Contains(st.Message, message), fmt.Sprintf("%+v", st)
	})
}

// podsOf are the pods of a job that are not being deleted, by name.
func (w *world) podsOf(job string) map[string]v1.Pod {
	w.T.Helper()
	out := map[string]v1.Pod{}
	for _, p := range w.Pods(batch.JobNameKey + "=" + job) {
		if p.DeletionTimestamp == nil {
			out[p.Name] = p
		}
	}
	return out
}

// running waits until a job has so many pods and all of them run.
func (w *world) running(job string, n int) map[string]v1.Pod {
	w.T.Helper()
	var pods map[string]v1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s run", n, job), func() (bool, string) {
		pods = w.podsOf(job)
		up := 0
		for _, p := range pods {
			if p.Status.Phase == v1.PodRunning {
				up++
			}
		}
		return up == n && len(pods) == n, fmt.Sprintf("%d of %d pods run", up, len(pods))
	})
	return pods
}

// ends makes a pod end as if its container had, with an exit code.
func (w *world) ends(name string, code int32) {
	w.T.Helper()
	w.Eventually("pod "+name+" ends", func() (bool, string) {
		p := w.Get(name)
		p.Status.Phase = v1.PodSucceeded
		if code != 0 {
			p.Status.Phase = v1.PodFailed
		}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
		}}}
		_, err := w.Client.CoreV1().Pods("default").UpdateStatus(context.Background(), p, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// command gives an order to a job or a queue, as vcctl does.
func (w *world) command(kind, name string, action bus.Action) {
	w.T.Helper()
	api := batch.SchemeGroupVersion
	if kind == "Queue" {
		api = scheduling.SchemeGroupVersion
	}
	w.Apply(fmt.Sprintf(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: %s-%s}, action: %s,
  target: {apiVersion: %s, kind: %s, name: %s, uid: "1"}}`, name, strings.ToLower(string(action)), action, api, kind, name))
}
