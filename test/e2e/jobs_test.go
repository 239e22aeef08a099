package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestJobs runs Volcano Jobs through their lives on one cluster.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t)
	w.Controller()
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"runs to its end", runsToItsEnd},
		{"restarts up to maxRetry", restartsUpToMaxRetry},
		{"restarts a task only", restartsATaskOnly},
		{"restarts a pod by exit code", restartsAPodByExitCode},
		{"restarts when evicted", restartsWhenEvicted},
		{"aborts and resumes", abortsAndResumes},
		{"completes with its master", completesWithItsMaster},
		{"policy waits for its timeout", policyWaits},
		{"grows and shrinks", growsAndShrinks},
		{"waits for other tasks", waitsForOtherTasks},
		{"plugins", pluginsMakeWhatTheyShould},
		{"unknown plugin", unknownPlugin},
		{"unknown queue", unknownQueue},
		{"bad specs are refused by field", badSpecs},
		{"queues count", queuesCount},
		{"queue tree", queueTree},
		{"cannot be completed", cannotBeCompleted},
		{"a task fails", taskFails},
		{"enough succeeded", enoughSucceeded},
		{"stopped while growing", stoppedWhileGrowing},
		// Last: kube-controller-manager looks for new kinds every 30 seconds only.
		{"is deleted after its time", isDeletedAfterItsTime},
		{"deleted in every phase", deletedInEveryPhase},
		{"made anew under its name", madeAnew},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(w.within(t)) })
	}
}

func runsToItsEnd(w *world) {
	w.Apply(jobManifest("ends", "minAvailable: 3\npriorityClassName: system-cluster-critical", task("master", 1, "runs: 1s"), task("worker", 2, "runs: 1s")))
	job := w.reaches("ends", batch.Running)
	pods := w.podsOf("ends")
	if got := slices.Sorted(maps.Keys(pods)); !slices.Equal(got, []string{"ends-master-0", "ends-worker-0", "ends-worker-1"}) {
		w.T.Fatalf("pods are %v", got)
	}
	p := pods["ends-worker-1"]
	group := blueprint.GroupName(job)
	for key, want := range map[string]string{
		"volcano.sh/job-name": "ends", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1", "volcano.sh/queue-name": "default",
		"volcano.sh/job-version": "0", "scheduling.k8s.io/group-name": group, "volcano.sh/template-uid": "ends-worker",
	} {
		if p.Annotations[key] != want {
			w.T.Errorf("annotation %s is %q, want %q", key, p.Annotations[key], want)
		}
	}
	if p.Spec.SchedulerName != "volcano" || p.Spec.PriorityClassName != "system-cluster-critical" || p.Labels["volcano.sh/job-namespace"] != "default" || !metav1.IsControlledBy(&p, job) {
		w.T.Errorf("scheduler %s, priority class %s, labels %v, owners %v", p.Spec.SchedulerName, p.Spec.PriorityClassName, p.Labels, p.OwnerReferences)
	}
	g := w.group(group)
	if gpus := (*g.Spec.MinResources)["nvidia.com/gpu"]; g.Spec.MinMember != 3 || g.Spec.Queue != "default" || gpus.Value() != 3 {
		w.T.Errorf("PodGroup %+v", g.Spec)
	}
	st := w.reaches("ends", batch.Completed).Status
	if st.Succeeded != 3 || st.Running != 0 || st.RunningDuration == nil || st.MinAvailable != 3 || st.TaskStatusCount["worker"].Phase[v1.PodSucceeded] != 2 {
		w.T.Errorf("status %+v", st)
	}
	var history []batch.JobPhase
	for _, c := range st.Conditions {
		history = append(history, c.Status)
	}
	if !slices.Equal(history, []batch.JobPhase{batch.Pending, batch.Running, batch.Completed}) {
		w.T.Errorf("phases %v", history)
	}
	w.Eventually("the PodGroup is completed", func() (bool, string) {
		st := w.group(group).Status
		return st.Phase == scheduling.PodGroupCompleted && st.Succeeded == 3, fmt.Sprintf("%+v", st)
	})
}

func restartsUpToMaxRetry(w *world) {
	w.Apply(jobManifest("fails", "maxRetry: 2\nminAvailable: 2\npolicies: [{event: PodFailed, action: RestartJob}]", task("worker", 2)))
	seen := map[types.UID]bool{}
	for attempt := range int32(3) {
		for _, p := range w.running("fails", 2) {
			if seen[p.UID] {
				w.T.Fatalf("attempt %d: %s is one of an attempt before", attempt, p.Name)
			}
			seen[p.UID] = true
		}
		if st := w.reaches("fails", batch.Running).Status; st.RetryCount != attempt || st.Version != attempt {
			w.T.Errorf("attempt %d: retryCount %d, version %d", attempt, st.RetryCount, st.Version)
		}
		w.ends("fails-worker-1", 3)
		if attempt < 2 {
			w.Eventually("all pods are new", func() (bool, string) {
				pods := w.podsOf("fails")
				for _, p := range pods {
					if seen[p.UID] {
						return false, p.Name + " is old"
					}
				}
				return len(pods) == 2, fmt.Sprint(len(pods))
			})
		}
	}
	st := w.reaches("fails", batch.Failed).Status
	if want := "restarted 2 times (spec.maxRetry), then pod fails-worker-1 failed with exit code 3"; st.State.Reason != "RetriesExhausted" || st.State.Message != want {
		w.T.Errorf("state %+v", st.State)
	}
	w.Eventually("who still ran is stopped, who failed is kept", func() (bool, string) {
		pods := w.podsOf("fails")
		p, kept := pods["fails-worker-1"]
		return len(pods) == 1 && kept && p.Status.Phase == v1.PodFailed, fmt.Sprint(slices.Collect(maps.Keys(pods)))
	})
	w.Event("Job", "fails", "exit code 3")
}

func restartsATaskOnly(w *world) {
	w.Apply(jobManifest("partly", "", task("ps", 1), task("worker", 2, "policies: [{event: PodFailed, action: RestartTask}]")))
	w.reaches("partly", batch.Running)
	before := w.running("partly", 3)
	w.ends("partly-worker-0", 1)
	w.Eventually("the task is new", func() (bool, string) {
		now := w.podsOf("partly")
		fresh := len(now) == 3
		for _, name := range []string{"partly-worker-0", "partly-worker-1"} {
			fresh = fresh && now[name].UID != before[name].UID
		}
		return fresh, fmt.Sprint(len(now))
	})
	w.running("partly", 3)
	if p := w.Get("partly-ps-0"); p.UID != before["partly-ps-0"].UID {
		w.T.Error("the other task was restarted, too")
	}
	if st := w.reaches("partly", batch.Running).Status; st.RetryCount != 1 || st.Running != 3 {
		w.T.Errorf("status %+v", st)
	}
}

func restartsAPodByExitCode(w *world) {
	w.Apply(jobManifest("codes", "policies: [{exitCode: 137, action: RestartPod}, {event: PodFailed, action: TerminateJob}]", task("worker", 3)))
	before := w.running("codes", 3)
	w.ends("codes-worker-2", 137)
	w.Eventually("the pod is new", func() (bool, string) {
		p, ok := w.podsOf("codes")["codes-worker-2"]
		return ok && p.UID != before[p.Name].UID, fmt.Sprint(ok)
	})
	for name, p := range w.running("codes", 3) {
		if name != "codes-worker-2" && p.UID != before[name].UID {
			w.T.Errorf("%s was restarted, too", name)
		}
	}
	w.reaches("codes", batch.Running)
	w.ends("codes-worker-0", 1)
	st := w.reaches("codes", batch.Terminated).Status
	if st.State.Reason != "TerminateJob" || st.Failed != 1 || st.Running != 0 {
		w.T.Errorf("status %+v", st)
	}
}

func restartsWhenEvicted(w *world) {
	w.Apply(jobManifest("evicted", "maxRetry: 1\npolicies: [{event: PodEvicted, action: RestartJob}]", task("worker", 2)))
	for _, evictions := range []string{"1", "2"} { // more than maxRetry: it is not the job's fault
		before := w.running("evicted", 2)
		w.reaches("evicted", batch.Running)
		w.Delete("evicted-worker-0") // at once: it is not seen to leave
		w.Eventually("all pods are new", func() (bool, string) {
			now := w.podsOf("evicted")
			fresh := len(now) == 2
			for name, p := range now {
				fresh = fresh && p.UID != before[name].UID
			}
			return fresh, fmt.Sprint(len(now))
		})
		if st := w.reaches("evicted", batch.Running).Status; st.RetryCount != 0 || st.ControlledResources["evictions"] != evictions {
			w.T.Errorf("retryCount %d, %v, want %s evictions", st.RetryCount, st.ControlledResources, evictions)
		}
	}
}

func abortsAndResumes(w *world) {
	w.command("Job", "aborted", bus.TerminateJobAction) // there is no such job yet: it is not for the one below
	w.Eventually("the command is dropped", func() (bool, string) {
		return w.Object(bus.SchemeGroupVersion.WithResource("commands"), "aborted-terminatejob") == nil, ""
	})
	w.Apply(jobManifest("aborted", "policies: [{event: PodFailed, action: AbortJob}]", task("worker", 2)))
	w.running("aborted", 2)
	w.ends("aborted-worker-0", 1)
	job := w.reaches("aborted", batch.Aborted)
	if st := job.Status; st.Running != 0 || st.Failed != 1 {
		w.T.Errorf("status %+v", st)
	}
	w.Eventually("its gang is gone", func() (bool, string) {
		return w.Object(cluster.PodGroups, blueprint.GroupName(job)) == nil, ""
	})
	w.command("Job", "aborted", bus.ResumeJobAction)
	w.running("aborted", 2)
	w.reaches("aborted", batch.Running)
	w.command("Job", "aborted", bus.AbortJobAction)
	w.reaches("aborted", batch.Aborted)
}

func completesWithItsMaster(w *world) {
	w.Apply(jobManifest("led", "", task("master", 1, "policies: [{event: TaskCompleted, action: CompleteJob}]"), task("worker", 2)))
	w.running("led", 3)
	w.ends("led-master-0", 0)
	if st := w.reaches("led", batch.Completed).Status; st.Succeeded != 1 || st.Running != 0 {
		w.T.Errorf("status %+v", st)
	}
}

func policyWaits(w *world) {
	w.Apply(jobManifest("patient", "policies: [{event: PodFailed, action: TerminateJob, timeout: 4s}]", task("worker", 2)))
	w.running("patient", 2)
	w.reaches("patient", batch.Running)
	w.ends("patient-worker-0", 1)
	begin := time.Now()
	w.Eventually("the failure is counted", func() (bool, string) {
		return w.job("patient").Status.Failed == 1, ""
	})
	if phase := w.job("patient").Status.State.Phase; phase != batch.Running {
		w.T.Errorf("phase %s before the timeout", phase)
	}
	w.reaches("patient", batch.Terminated)
	if took := time.Since(begin); took < 2*time.Second { // times are in whole seconds
		w.T.Errorf("terminated after %v", took)
	}
}

func isDeletedAfterItsTime(w *world) {
	w.Apply(jobManifest("shortlived", "ttlSecondsAfterFinished: 2", task("worker", 1, "runs: 1s")))
	w.reaches("shortlived", batch.Completed)
	w.Eventually("job and pods are gone", func() (bool, string) {
		there := w.Object(volcanoJobs, "shortlived") != nil
		return !there && len(w.podsOf("shortlived")) == 0, fmt.Sprintf("job there: %v, pods %d", there, len(w.podsOf("shortlived")))
	})
}

func growsAndShrinks(w *world) {
	const plugins = "minAvailable: 1\nplugins: {svc: []}"
	w.Apply(jobManifest("elastic", plugins, task("worker", 2)))
	before := w.running("elastic", 2)
	w.Apply(jobManifest("elastic", plugins, task("worker", 4)))
	w.running("elastic", 4)
	hosts := func(want string) {
		w.T.Helper()
		w.Eventually("hosts are "+want, func() (bool, string) {
			m, err := w.Client.CoreV1().ConfigMaps("default").Get(context.Background(), "elastic-svc", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			return m.Data["VC_WORKER_NUM"] == want, fmt.Sprint(m.Data)
		})
	}
	hosts("4")
	w.Apply(jobManifest("elastic", plugins, task("worker", 1)))
	after := w.running("elastic", 1)
	if after["elastic-worker-0"].UID != before["elastic-worker-0"].UID {
		w.T.Error("the pod that stays was restarted")
	}
	hosts("1")
	if st := w.reaches("elastic", batch.Running).Status; st.RetryCount != 0 || st.Version != 0 {
		w.T.Errorf("status %+v", st)
	}
}

func waitsForOtherTasks(w *world) {
	w.Apply(jobManifest("ordered", "minAvailable: 3", task("data", 1), task("worker", 2, "dependsOn: {name: [data]}")))
	w.Eventually("the worker follows the data", func() (bool, string) {
		pods := w.podsOf("ordered")
		data, worker := pods["ordered-data-0"], pods["ordered-worker-0"]
		if worker.Name != "" && worker.CreationTimestamp.Before(&data.CreationTimestamp) {
			w.T.Fatal("the worker came first")
		}
		return len(pods) == 3, fmt.Sprint(len(pods))
	})
	job := w.reaches("ordered", batch.Running)
	w.Eventually("the gang has grown", func() (bool, string) {
		n := w.group(blueprint.GroupName(job)).Spec.MinMember
		return n == 3, fmt.Sprint(n)
	})
}

func pluginsMakeWhatTheyShould(w *world) {
	w.Apply(jobManifest("torch", "plugins: {pytorch: [\"--master=chief\", \"--worker=worker\", \"--port=29500\"], ssh: [], env: []}", task("chief", 1), task("worker", 2)))
	w.running("torch", 3)
	ctx := context.Background()
	service, err := w.Client.CoreV1().Services("default").Get(ctx, "torch", metav1.GetOptions{})
	w.Must(err)
	if service.Spec.ClusterIP != v1.ClusterIPNone || service.Spec.Selector["volcano.sh/job-name"] != "torch" {
		w.T.Errorf("service %+v", service.Spec)
	}
	hosts, err := w.Client.CoreV1().ConfigMaps("default").Get(ctx, "torch-svc", metav1.GetOptions{})
	w.Must(err)
	if got := hosts.Data["worker.host"]; got != "torch-worker-0.torch\ntorch-worker-1.torch" || hosts.Data["VC_CHIEF_HOSTS"] != "torch-chief-0.torch" {
		w.T.Errorf("hosts %v", hosts.Data)
	}
	secret, err := w.Client.CoreV1().Secrets("default").Get(ctx, "torch-ssh", metav1.GetOptions{})
	w.Must(err)
	if !strings.HasPrefix(string(secret.Data["id_rsa.pub"]), "ssh-rsa AAAA") || !strings.Contains(string(secret.Data["id_rsa"]), "RSA PRIVATE KEY") ||
		string(secret.Data["authorized_keys"]) != string(secret.Data["id_rsa.pub"]) || !strings.Contains(string(secret.Data["config"]), "HostName torch-worker-1.torch") {
		w.T.Errorf("secret has %v", slices.Collect(maps.Keys(secret.Data)))
	}
	p := w.Get("torch-worker-1")
	if p.Spec.Hostname != "torch-worker-1" || p.Spec.Subdomain != "torch" {
		w.T.Errorf("host %s.%s", p.Spec.Hostname, p.Spec.Subdomain)
	}
	env := map[string]string{}
	for _, e := range p.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{
		"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1", "MASTER_ADDR": "torch-chief-0.torch", "MASTER_PORT": "29500", "WORLD_SIZE": "3", "RANK": "2",
	} {
		if env[name] != want {
			w.T.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	mounts := map[string]string{}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	if mounts["/root/.ssh"] != "torch-ssh" || mounts["/etc/volcano"] != "torch-svc" {
		w.T.Errorf("mounts %v", mounts)
	}
}

func unknownPlugin(w *world) {
	w.Apply(jobManifest("strange", "plugins: {teleport: []}", task("worker", 1)))
	st := w.reaches("strange", batch.Failed).Status.State
	if !strings.HasPrefix(st.Message, "spec.plugins.teleport: unknown plugin") {
		w.T.Errorf("state %+v", st)
	}
	w.Event("Job", "strange", "spec.plugins.teleport")
	if n := len(w.podsOf("strange")); n != 0 {
		w.T.Errorf("%d pods were created", n)
	}
}

func unknownQueue(w *world) {
	w.Apply(jobManifest("lost", "queue: nowhere", task("worker", 1)))
	w.Eventually("the job says so", func() (bool, string) {
		st := w.job("lost").Status.State
		return st.Reason == "UnknownQueue" && strings.Contains(st.Message, `spec.queue: queue "nowhere"`), fmt.Sprintf("%+v", st)
	})
	w.Event("Job", "lost", "spec.queue")
	group := blueprint.GroupName(w.job("lost"))
	w.Event("PodGroup", group, "spec.queue")
	w.Eventually("the group says so", func() (bool, string) {
		c := w.group(group).Status.Conditions
		return len(c) == 1 && c[0].Type == "InvalidQueue" && c[0].Reason == "UnknownQueue", fmt.Sprint(c)
	})
	if n := len(w.podsOf("lost")); n != 0 {
		w.T.Errorf("%d pods were created", n)
	}
	w.Apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: nowhere}, spec: {weight: 2}}")
	if st := w.reaches("lost", batch.Running).Status.State; st.Message != "" {
		w.T.Errorf("state %+v", st)
	}
	if c := w.group(group).Status.Conditions; len(c) != 0 {
		w.T.Errorf("conditions %v", c)
	}
}

func badSpecs(w *world) {
	bad := func(fields string, tasks ...string) string { return jobManifest("bad", fields, tasks...) }
	w.Refused(bad("minAvailable: 3", task("a", 2)), "spec.minAvailable", "above the sum of the tasks' replicas")
	w.Refused(bad("minSuccess: 3", task("a", 2)), "spec.minSuccess")
	w.Refused(bad("", task("a", 2, "minAvailable: 3")), "spec.tasks[0].minAvailable")
	w.Refused(bad("", task("a", 1), task("a", 1)), "spec.tasks", "same name")
	w.Refused(bad("", task("a", 0)), "spec.tasks", "no replicas")
	w.Refused(bad("", task("a", 1, "dependsOn: {name: [b]}")), "spec.tasks", "does not have")
	w.Refused(bad("", task("a", 1, "dependsOn: {name: [a]}")), "spec.tasks[0].dependsOn")
	w.Refused(bad("policies: [{event: Sunrise, action: RestartJob}]", task("a", 1)), "spec.policies[0].event", "Sunrise")
	w.Refused(bad("policies: [{event: PodFailed, action: Explode}]", task("a", 1)), "spec.policies[0].action", "Explode")
	w.Refused(bad("policies: [{event: PodFailed, exitCode: 1, action: RestartJob}]", task("a", 1)), "spec.policies[0]", "exitCode")
	w.Refused(bad("policies: [{exitCode: 0, action: RestartJob}]", task("a", 1)), "spec.policies[0].exitCode")
	w.Refused(bad("maxRetry: -1", task("a", 1)), "spec.maxRetry")
	w.Refused(jobManifest(strings.Repeat("a", 64), "", task("a", 1)), "metadata.name")
	w.Refused(bad("policies: [{event: PodFailed, action: RestartJob, timeout: soon}]", task("a", 1)), "spec.policies[0].timeout")
	w.Refused(bad("policies: [{event: PodFailed, action: RestartJob, timeout: -5s}]", task("a", 1)), "spec.policies[0].timeout")
	w.Refused(bad("runningEstimate: 0s", task("a", 1)), "spec.runningEstimate")
	w.Refused(bad("ttlSecondsAfterFinished: -1", task("a", 1)), "spec.ttlSecondsAfterFinished")
	w.Refused(bad("volumes: [{mountPath: /x}, {mountPath: /x}]", task("a", 1)), "spec.volumes")
	w.Refused(bad("", task("a", 100001)), "spec.tasks[0].replicas")
	w.Refused(bad("", task("a", 60000), task("b", 60000)), "spec.tasks", "more than 100000")
	w.Refused(bad("", "  - {name: a, replicas: 1}\n"), "spec.tasks[0].template.spec")
	w.Refused(bad("", "  - {name: a, replicas: 1, template: {spec: {containers: []}}}\n"), "spec.tasks[0].template.spec.containers")
	w.Refused("{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: bad}, action: AbortJob}", "target")
	w.Refused("{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: bad}, action: Explode, target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: x, uid: x}}", "action", "Explode")
	queue := func(spec string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: bad}, spec: " + spec + "}"
	}
	w.Refused(queue("{weight: -1}"), "spec.weight")
	w.Refused(queue("{weight: 0}"), "spec.weight")
	w.Refused(strings.Replace(queue("{}"), "name: bad", "name: "+strings.Repeat("q", 64), 1), "metadata.name")
	w.Refused(queue("{parent: bad}"), "spec.parent", "own parent")
	w.Refused(queue("{parent: default}"), "spec.parent", "default")
	w.Refused(queue(`{guarantee: {resource: {cpu: 2, nvidia.com/gpu: "8"}}, capability: {cpu: 1500m, nvidia.com/gpu: 8}}`), "spec.guarantee.resource", "guarantee is above capability")
	w.Refused(queue("{deserved: {memory: 2Gi}, capability: {memory: 1Gi}}"), "spec.deserved", "deserved is above capability")
	w.Refused(queue("{capability: {cpu: -1}}"), "spec.capability", "negative")
	w.Refused("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: bad}, spec: {minMember: 0}}", "spec.minMember")
	w.Refused("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: bad}, spec: {minMember: -2}}", "spec.minMember")

	// A cycle of dependencies is beyond CEL.
	w.Apply(jobManifest("circle", "", task("a", 1, "dependsOn: {name: [b]}"), task("b", 1, "dependsOn: {name: [a]}")))
	if st := w.reaches("circle", batch.Failed).Status.State; !strings.HasPrefix(st.Message, "spec.tasks[0].dependsOn") {
		w.T.Errorf("state %+v", st)
	}
	// A name that a task without one gets, too.
	w.Apply(jobManifest("twins", "", strings.Replace(task("x", 1), "name: x\n    ", "", 1), task("default0", 1)))
	if st := w.reaches("twins", batch.Failed).Status.State; !strings.HasPrefix(st.Message, "spec.tasks[1].name") {
		w.T.Errorf("state %+v", st)
	}
	// What no pattern keeps out and Go cannot read: the job fails, and no other is kept
	// from being seen.
	w.Apply(strings.Replace(jobManifest("garbled", "", task("a", 1)), "nvidia.com/gpu: 1}", `nvidia.com/gpu: "1e1.5"}`, 1))
	w.Eventually("job garbled fails", func() (bool, string) {
		o, err := w.Dynamic.Resource(batch.SchemeGroupVersion.WithResource("jobs")).Namespace("default").Get(context.Background(), "garbled", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		state, _, _ := unstructured.NestedStringMap(o.Object, "status", "state")
		return state["phase"] == string(batch.Failed) && strings.HasPrefix(state["message"], "spec: quantities must match"), fmt.Sprint(state)
	})
	// What only the pods' own admission knows.
	w.Apply(jobManifest("classless", "priorityClassName: royal", task("a", 1)))
	w.says("classless", "FailedCreate", "no PriorityClass with name royal")
	w.Apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: royal}, value: 7}")
	if st := w.reaches("classless", batch.Running).Status.State; st.Message != "" {
		w.T.Errorf("state %+v", st)
	}
	// What is fixed once a job exists.
	w.Apply(jobManifest("fixed", "", task("a", 1)))
	w.Refused(jobManifest("fixed", "queue: other", task("a", 1)), "spec.queue")
	w.Refused(jobManifest("fixed", "", task("b", 1)), "spec.tasks")
	w.Refused(jobManifest("fixed", "plugins: {teleport: []}", task("a", 1)), "spec.plugins")
}

func queuesCount(w *world) {
	w.Apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: org}, spec: {weight: 1}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team}, spec: {weight: 1, parent: org, capability: {nvidia.com/gpu: 8}}}`)
	w.Apply(jobManifest("counted", "queue: team", task("worker", 2)))
	w.running("counted", 2)
	for _, name := range []string{"team", "org"} {
		w.Eventually("queue "+name+" holds two GPUs", func() (bool, string) {
			st := w.queue(name)
			gpus := st.Allocated["nvidia.com/gpu"]
			return gpus.Value() == 2 && st.State == scheduling.QueueStateOpen && (name == "org" || st.Running == 1), fmt.Sprintf("%+v", st)
		})
	}
	w.Apply(`{apiVersion: v1, kind: Pod, metadata: {name: half, labels: {tangram.dev/queue: team}}, spec: {schedulerName: gpu-scheduler,
  containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 40960}}}]}}`)
	w.Eventually("half a GPU is half a GPU", func() (bool, string) {
		gpus := w.queue("team").Allocated["nvidia.com/gpu"]
		return gpus.String() == "2500m", gpus.String()
	})
	w.Delete("half")
	w.command("Queue", "team", bus.CloseQueueAction)
	w.Eventually("the queue is closing", func() (bool, string) {
		return w.queue("team").State == scheduling.QueueStateClosing, fmt.Sprintf("%+v", w.queue("team"))
	})
	w.Apply(jobManifest("late", "queue: team", task("worker", 1)))
	w.Eventually("a job in a closed queue waits", func() (bool, string) {
		st := w.job("late").Status.State
		return st.Reason == "QueueClosed", fmt.Sprintf("%+v", st)
	})
	w.ends("counted-worker-0", 0)
	w.ends("counted-worker-1", 0)
	w.reaches("counted", batch.Completed)
	w.Eventually("the queue holds nothing", func() (bool, string) {
		st := w.queue("team")
		return len(st.Allocated) == 0 && st.Completed == 1 && st.Running == 0, fmt.Sprintf("%+v", st)
	})
	w.command("Queue", "team", bus.OpenQueueAction)
	w.reaches("late", batch.Running)
}

func queueTree(w *world) {
	for _, name := range []string{"root", "default"} {
		if st := w.queue(name); st.State != scheduling.QueueStateOpen {
			w.T.Errorf("queue %s: %+v", name, st)
		}
	}
	w.Apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: orphan}, spec: {parent: absent}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: hen}, spec: {parent: egg}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: egg}, spec: {parent: hen}}`)
	w.Event("Queue", "orphan", "spec.parent", `"absent" does not exist`)
	w.Event("Queue", "hen", "spec.parent", "above itself")
	// A circle of three, closed by an update; and a queue that has nothing to do with it.
	queue := func(name, parent string) {
		w.Apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: {parent: %q}}", name, parent))
	}
	queue("low", "mid")
	queue("mid", "high")
	queue("high", "root")
	w.Eventually("they have their places", func() (bool, string) {
		return w.queue("low").State == scheduling.QueueStateOpen, ""
	})
	queue("high", "low")
	queue("apart", "root")
	w.Event("Queue", "mid", `spec.parent: queue "mid" is above itself`)
	for _, name := range []string{"orphan", "hen", "egg", "low", "mid", "high"} {
		w.Eventually("queue "+name+" has no place", func() (bool, string) {
			st := w.queue(name)
			return st.State == scheduling.QueueStateUnknown, fmt.Sprintf("%+v", st)
		})
	}
	w.Apply(jobManifest("astray", "queue: orphan", task("worker", 1)))
	w.Apply(jobManifest("above", "queue: root", task("worker", 1)))
	w.Apply(jobManifest("apart", "queue: apart", task("worker", 1)))
	w.reaches("apart", batch.Running) // others' mistakes are not its own
	w.says("astray", "QueueInvalid", `spec.queue: queue "orphan" has no place`)
	w.says("above", "QueueHasQueues", `spec.queue: queue "root" takes no jobs`)
	queue("orphan", "root")
	w.reaches("astray", batch.Running)
	if err := w.Dynamic.Resource(scheduling.SchemeGroupVersion.WithResource("queues")).Delete(context.Background(), "default", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.T.Fatal(err)
	}
	w.Eventually("the default queue is back", func() (bool, string) {
		return w.queue("default").State == scheduling.QueueStateOpen, ""
	})
}
