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
)

// TestJobs runs Volcano Jobs through their lives on one cluster.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t)
	w.controller()
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
	w.apply(jobManifest("ends", "minAvailable: 3\npriorityClassName: system-cluster-critical", task("master", 1, "runs: 1s"), task("worker", 2, "runs: 1s")))
	job := w.reaches("ends", batch.Running)
	pods := w.podsOf("ends")
	if got := slices.Sorted(maps.Keys(pods)); !slices.Equal(got, []string{"ends-master-0", "ends-worker-0", "ends-worker-1"}) {
		w.t.Fatalf("pods are %v", got)
	}
	p := pods["ends-worker-1"]
	group := blueprint.GroupName(job)
	for key, want := range map[string]string{
		"volcano.sh/job-name": "ends", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1", "volcano.sh/queue-name": "default",
		"volcano.sh/job-version": "0", "scheduling.k8s.io/group-name": group, "volcano.sh/template-uid": "ends-worker",
	} {
		if p.Annotations[key] != want {
			w.t.Errorf("annotation %s is %q, want %q", key, p.Annotations[key], want)
		}
	}
	if p.Spec.SchedulerName != "volcano" || p.Spec.PriorityClassName != "system-cluster-critical" || p.Labels["volcano.sh/job-namespace"] != "default" || !metav1.IsControlledBy(&p, job) {
		w.t.Errorf("scheduler %s, priority class %s, labels %v, owners %v", p.Spec.SchedulerName, p.Spec.PriorityClassName, p.Labels, p.OwnerReferences)
	}
	g := w.group(group)
	if gpus := (*g.Spec.MinResources)["nvidia.com/gpu"]; g.Spec.MinMember != 3 || g.Spec.Queue != "default" || gpus.Value() != 3 {
		w.t.Errorf("PodGroup %+v", g.Spec)
	}
	st := w.reaches("ends", batch.Completed).Status
	if st.Succeeded != 3 || st.Running != 0 || st.RunningDuration == nil || st.MinAvailable != 3 || st.TaskStatusCount["worker"].Phase[v1.PodSucceeded] != 2 {
		w.t.Errorf("status %+v", st)
	}
	var history []batch.JobPhase
	for _, c := range st.Conditions {
		history = append(history, c.Status)
	}
	if !slices.Equal(history, []batch.JobPhase{batch.Pending, batch.Running, batch.Completed}) {
		w.t.Errorf("phases %v", history)
	}
	w.eventually("the PodGroup is completed", 10*time.Second, func() (bool, string) {
		st := w.group(group).Status
		return st.Phase == scheduling.PodGroupCompleted && st.Succeeded == 3, fmt.Sprintf("%+v", st)
	})
}

func restartsUpToMaxRetry(w *world) {
	w.apply(jobManifest("fails", "maxRetry: 2\nminAvailable: 2\npolicies: [{event: PodFailed, action: RestartJob}]", task("worker", 2)))
	seen := map[types.UID]bool{}
	for attempt := range int32(3) {
		for _, p := range w.running("fails", 2) {
			if seen[p.UID] {
				w.t.Fatalf("attempt %d: %s is one of an attempt before", attempt, p.Name)
			}
			seen[p.UID] = true
		}
		if st := w.reaches("fails", batch.Running).Status; st.RetryCount != attempt || st.Version != attempt {
			w.t.Errorf("attempt %d: retryCount %d, version %d", attempt, st.RetryCount, st.Version)
		}
		w.ends("fails-worker-1", 3)
		if attempt < 2 {
			w.eventually("all pods are new", 20*time.Second, func() (bool, string) {
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
		w.t.Errorf("state %+v", st.State)
	}
	w.eventually("who still ran is stopped, who failed is kept", 20*time.Second, func() (bool, string) {
		pods := w.podsOf("fails")
		p, kept := pods["fails-worker-1"]
		return len(pods) == 1 && kept && p.Status.Phase == v1.PodFailed, fmt.Sprint(slices.Collect(maps.Keys(pods)))
	})
	w.event("Job", "fails", "exit code 3")
}

func restartsATaskOnly(w *world) {
	w.apply(jobManifest("partly", "", task("ps", 1), task("worker", 2, "policies: [{event: PodFailed, action: RestartTask}]")))
	w.reaches("partly", batch.Running)
	before := w.running("partly", 3)
	w.ends("partly-worker-0", 1)
	w.eventually("the task is new", 20*time.Second, func() (bool, string) {
		now := w.podsOf("partly")
		fresh := len(now) == 3
		for _, name := range []string{"partly-worker-0", "partly-worker-1"} {
			fresh = fresh && now[name].UID != before[name].UID
		}
		return fresh, fmt.Sprint(len(now))
	})
	w.running("partly", 3)
	if p := w.get("partly-ps-0"); p.UID != before["partly-ps-0"].UID {
		w.t.Error("the other task was restarted, too")
	}
	if st := w.reaches("partly", batch.Running).Status; st.RetryCount != 1 || st.Running != 3 {
		w.t.Errorf("status %+v", st)
	}
}

func restartsAPodByExitCode(w *world) {
	w.apply(jobManifest("codes", "policies: [{exitCode: 137, action: RestartPod}, {event: PodFailed, action: TerminateJob}]", task("worker", 3)))
	before := w.running("codes", 3)
	w.ends("codes-worker-2", 137)
	w.eventually("the pod is new", 20*time.Second, func() (bool, string) {
		p, ok := w.podsOf("codes")["codes-worker-2"]
		return ok && p.UID != before[p.Name].UID, fmt.Sprint(ok)
	})
	for name, p := range w.running("codes", 3) {
		if name != "codes-worker-2" && p.UID != before[name].UID {
			w.t.Errorf("%s was restarted, too", name)
		}
	}
	w.reaches("codes", batch.Running)
	w.ends("codes-worker-0", 1)
	st := w.reaches("codes", batch.Terminated).Status
	if st.State.Reason != "TerminateJob" || st.Failed != 1 || st.Running != 0 {
		w.t.Errorf("status %+v", st)
	}
}

func restartsWhenEvicted(w *world) {
	w.apply(jobManifest("evicted", "maxRetry: 1\npolicies: [{event: PodEvicted, action: RestartJob}]", task("worker", 2)))
	for _, evictions := range []string{"1", "2"} { // more than maxRetry: it is not the job's fault
		before := w.running("evicted", 2)
		w.reaches("evicted", batch.Running)
		w.gone("evicted-worker-0") // at once: nobody sees it leave
		w.eventually("all pods are new", 20*time.Second, func() (bool, string) {
			now := w.podsOf("evicted")
			fresh := len(now) == 2
			for name, p := range now {
				fresh = fresh && p.UID != before[name].UID
			}
			return fresh, fmt.Sprint(len(now))
		})
		if st := w.reaches("evicted", batch.Running).Status; st.RetryCount != 0 || st.ControlledResources["evictions"] != evictions {
			w.t.Errorf("retryCount %d, %v, want %s evictions", st.RetryCount, st.ControlledResources, evictions)
		}
	}
}

func abortsAndResumes(w *world) {
	w.command("Job", "aborted", bus.TerminateJobAction) // there is no such job yet: it is not for the one below
	w.eventually("the command is dropped", 10*time.Second, func() (bool, string) {
		return !w.read(bus.SchemeGroupVersion, "commands", "default", "aborted-terminatejob", &bus.Command{}), ""
	})
	w.apply(jobManifest("aborted", "policies: [{event: PodFailed, action: AbortJob}]", task("worker", 2)))
	w.running("aborted", 2)
	w.ends("aborted-worker-0", 1)
	job := w.reaches("aborted", batch.Aborted)
	if st := job.Status; st.Running != 0 || st.Failed != 1 {
		w.t.Errorf("status %+v", st)
	}
	w.eventually("its gang is gone", 10*time.Second, func() (bool, string) {
		return !w.read(scheduling.SchemeGroupVersion, "podgroups", "default", blueprint.GroupName(job), &scheduling.PodGroup{}), ""
	})
	w.command("Job", "aborted", bus.ResumeJobAction)
	w.running("aborted", 2)
	w.reaches("aborted", batch.Running)
	w.command("Job", "aborted", bus.AbortJobAction)
	w.reaches("aborted", batch.Aborted)
}

func completesWithItsMaster(w *world) {
	w.apply(jobManifest("led", "", task("master", 1, "policies: [{event: TaskCompleted, action: CompleteJob}]"), task("worker", 2)))
	w.running("led", 3)
	w.ends("led-master-0", 0)
	if st := w.reaches("led", batch.Completed).Status; st.Succeeded != 1 || st.Running != 0 {
		w.t.Errorf("status %+v", st)
	}
}

func policyWaits(w *world) {
	w.apply(jobManifest("patient", "policies: [{event: PodFailed, action: TerminateJob, timeout: 4s}]", task("worker", 2)))
	w.running("patient", 2)
	w.reaches("patient", batch.Running)
	w.ends("patient-worker-0", 1)
	begin := time.Now()
	w.eventually("the failure is counted", 10*time.Second, func() (bool, string) {
		return w.job("patient").Status.Failed == 1, ""
	})
	if phase := w.job("patient").Status.State.Phase; phase != batch.Running {
		w.t.Errorf("phase %s before the timeout", phase)
	}
	w.reaches("patient", batch.Terminated)
	if took := time.Since(begin); took < 2*time.Second { // times are in whole seconds
		w.t.Errorf("terminated after %v", took)
	}
}

func isDeletedAfterItsTime(w *world) {
	w.apply(jobManifest("shortlived", "ttlSecondsAfterFinished: 2", task("worker", 1, "runs: 1s")))
	w.reaches("shortlived", batch.Completed)
	w.eventually("job and pods are gone", 60*time.Second, func() (bool, string) {
		there := w.read(batch.SchemeGroupVersion, "jobs", "default", "shortlived", &batch.Job{})
		return !there && len(w.podsOf("shortlived")) == 0, fmt.Sprintf("job there: %v, pods %d", there, len(w.podsOf("shortlived")))
	})
}

func growsAndShrinks(w *world) {
	const plugins = "minAvailable: 1\nplugins: {svc: []}"
	w.apply(jobManifest("elastic", plugins, task("worker", 2)))
	before := w.running("elastic", 2)
	w.apply(jobManifest("elastic", plugins, task("worker", 4)))
	w.running("elastic", 4)
	hosts := func(want string) {
		w.t.Helper()
		w.eventually("hosts are "+want, 10*time.Second, func() (bool, string) {
			m, err := w.client.CoreV1().ConfigMaps("default").Get(context.Background(), "elastic-svc", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			return m.Data["VC_WORKER_NUM"] == want, fmt.Sprint(m.Data)
		})
	}
	hosts("4")
	w.apply(jobManifest("elastic", plugins, task("worker", 1)))
	after := w.running("elastic", 1)
	if after["elastic-worker-0"].UID != before["elastic-worker-0"].UID {
		w.t.Error("the pod that stays was restarted")
	}
	hosts("1")
	if st := w.reaches("elastic", batch.Running).Status; st.RetryCount != 0 || st.Version != 0 {
		w.t.Errorf("status %+v", st)
	}
}

func waitsForOtherTasks(w *world) {
	w.apply(jobManifest("ordered", "minAvailable: 3", task("data", 1), task("worker", 2, "dependsOn: {name: [data]}")))
	w.eventually("the worker follows the data", 20*time.Second, func() (bool, string) {
		pods := w.podsOf("ordered")
		data, worker := pods["ordered-data-0"], pods["ordered-worker-0"]
		if worker.Name != "" && worker.CreationTimestamp.Before(&data.CreationTimestamp) {
			w.t.Fatal("the worker came first")
		}
		return len(pods) == 3, fmt.Sprint(len(pods))
	})
	job := w.reaches("ordered", batch.Running)
	w.eventually("the gang has grown", 10*time.Second, func() (bool, string) {
		n := w.group(blueprint.GroupName(job)).Spec.MinMember
		return n == 3, fmt.Sprint(n)
	})
}

func pluginsMakeWhatTheyShould(w *world) {
	w.apply(jobManifest("torch", "plugins: {pytorch: [\"--master=chief\", \"--worker=worker\", \"--port=29500\"], ssh: [], env: []}", task("chief", 1), task("worker", 2)))
	w.running("torch", 3)
	ctx := context.Background()
	service, err := w.client.CoreV1().Services("default").Get(ctx, "torch", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if service.Spec.ClusterIP != v1.ClusterIPNone || service.Spec.Selector["volcano.sh/job-name"] != "torch" {
		w.t.Errorf("service %+v", service.Spec)
	}
	hosts, err := w.client.CoreV1().ConfigMaps("default").Get(ctx, "torch-svc", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if got := hosts.Data["worker.host"]; got != "torch-worker-0.torch\ntorch-worker-1.torch" || hosts.Data["VC_CHIEF_HOSTS"] != "torch-chief-0.torch" {
		w.t.Errorf("hosts %v", hosts.Data)
	}
	secret, err := w.client.CoreV1().Secrets("default").Get(ctx, "torch-ssh", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.HasPrefix(string(secret.Data["id_rsa.pub"]), "ssh-rsa AAAA") || !strings.Contains(string(secret.Data["id_rsa"]), "RSA PRIVATE KEY") ||
		string(secret.Data["authorized_keys"]) != string(secret.Data["id_rsa.pub"]) || !strings.Contains(string(secret.Data["config"]), "HostName torch-worker-1.torch") {
		w.t.Errorf("secret has %v", slices.Collect(maps.Keys(secret.Data)))
	}
	p := w.get("torch-worker-1")
	if p.Spec.Hostname != "torch-worker-1" || p.Spec.Subdomain != "torch" {
		w.t.Errorf("host %s.%s", p.Spec.Hostname, p.Spec.Subdomain)
	}
	env := map[string]string{}
	for _, e := range p.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{
		"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1", "MASTER_ADDR": "torch-chief-0.torch", "MASTER_PORT": "29500", "WORLD_SIZE": "3", "RANK": "2",
	} {
		if env[name] != want {
			w.t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	mounts := map[string]string{}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	if mounts["/root/.ssh"] != "torch-ssh" || mounts["/etc/volcano"] != "torch-svc" {
		w.t.Errorf("mounts %v", mounts)
	}
}

func unknownPlugin(w *world) {
	w.apply(jobManifest("strange", "plugins: {teleport: []}", task("worker", 1)))
	st := w.reaches("strange", batch.Failed).Status.State
	if !strings.HasPrefix(st.Message, "spec.plugins.teleport: unknown plugin") {
		w.t.Errorf("state %+v", st)
	}
	w.event("Job", "strange", "spec.plugins.teleport")
	if n := len(w.podsOf("strange")); n != 0 {
		w.t.Errorf("%d pods were created", n)
	}
}

func unknownQueue(w *world) {
	w.apply(jobManifest("lost", "queue: nowhere", task("worker", 1)))
	w.eventually("the job says so", 10*time.Second, func() (bool, string) {
		st := w.job("lost").Status.State
		return st.Reason == "UnknownQueue" && strings.Contains(st.Message, `spec.queue: queue "nowhere"`), fmt.Sprintf("%+v", st)
	})
	w.event("Job", "lost", "spec.queue")
	group := blueprint.GroupName(w.job("lost"))
	w.event("PodGroup", group, "spec.queue")
	w.eventually("the group says so", 10*time.Second, func() (bool, string) {
		c := w.group(group).Status.Conditions
		return len(c) == 1 && c[0].Type == "InvalidQueue" && c[0].Reason == "UnknownQueue", fmt.Sprint(c)
	})
	if n := len(w.podsOf("lost")); n != 0 {
		w.t.Errorf("%d pods were created", n)
	}
	w.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: nowhere}, spec: {weight: 2}}")
	if st := w.reaches("lost", batch.Running).Status.State; st.Message != "" {
		w.t.Errorf("state %+v", st)
	}
	if c := w.group(group).Status.Conditions; len(c) != 0 {
		w.t.Errorf("conditions %v", c)
	}
}

func badSpecs(w *world) {
	bad := func(fields string, tasks ...string) string { return jobManifest("bad", fields, tasks...) }
	w.refused(bad("minAvailable: 3", task("a", 2)), "spec.minAvailable", "above the sum of the tasks' replicas")
	w.refused(bad("minSuccess: 3", task("a", 2)), "spec.minSuccess")
	w.refused(bad("", task("a", 2, "minAvailable: 3")), "spec.tasks[0].minAvailable")
	w.refused(bad("", task("a", 1), task("a", 1)), "spec.tasks", "same name")
	w.refused(bad("", task("a", 0)), "spec.tasks", "no replicas")
	w.refused(bad("", task("a", 1, "dependsOn: {name: [b]}")), "spec.tasks", "does not have")
	w.refused(bad("", task("a", 1, "dependsOn: {name: [a]}")), "spec.tasks[0].dependsOn")
	w.refused(bad("policies: [{event: Sunrise, action: RestartJob}]", task("a", 1)), "spec.policies[0].event", "Sunrise")
	w.refused(bad("policies: [{event: PodFailed, action: Explode}]", task("a", 1)), "spec.policies[0].action", "Explode")
	w.refused(bad("policies: [{event: PodFailed, exitCode: 1, action: RestartJob}]", task("a", 1)), "spec.policies[0]", "exitCode")
	w.refused(bad("policies: [{exitCode: 0, action: RestartJob}]", task("a", 1)), "spec.policies[0].exitCode")
	w.refused(bad("maxRetry: -1", task("a", 1)), "spec.maxRetry")
	w.refused(jobManifest(strings.Repeat("a", 64), "", task("a", 1)), "metadata.name")
	w.refused(bad("policies: [{event: PodFailed, action: RestartJob, timeout: soon}]", task("a", 1)), "spec.policies[0].timeout")
	w.refused(bad("policies: [{event: PodFailed, action: RestartJob, timeout: -5s}]", task("a", 1)), "spec.policies[0].timeout")
	w.refused(bad("runningEstimate: 0s", task("a", 1)), "spec.runningEstimate")
	w.refused(bad("ttlSecondsAfterFinished: -1", task("a", 1)), "spec.ttlSecondsAfterFinished")
	w.refused(bad("volumes: [{mountPath: /x}, {mountPath: /x}]", task("a", 1)), "spec.volumes")
	w.refused(bad("", task("a", 100001)), "spec.tasks[0].replicas")
	w.refused(bad("", task("a", 60000), task("b", 60000)), "spec.tasks", "more than 100000")
	w.refused(bad("", "  - {name: a, replicas: 1}\n"), "spec.tasks[0].template.spec")
	w.refused(bad("", "  - {name: a, replicas: 1, template: {spec: {containers: []}}}\n"), "spec.tasks[0].template.spec.containers")
	w.refused("{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: bad}, action: AbortJob}", "target")
	w.refused("{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: bad}, action: Explode, target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: x, uid: x}}", "action", "Explode")
	queue := func(spec string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: bad}, spec: " + spec + "}"
	}
	w.refused(queue("{weight: -1}"), "spec.weight")
	w.refused(queue("{weight: 0}"), "spec.weight")
	w.refused(strings.Replace(queue("{}"), "name: bad", "name: "+strings.Repeat("q", 64), 1), "metadata.name")
	w.refused(queue("{parent: bad}"), "spec.parent", "own parent")
	w.refused(queue("{parent: default}"), "spec.parent", "default")
	w.refused(queue(`{guarantee: {resource: {cpu: 2, nvidia.com/gpu: "8"}}, capability: {cpu: 1500m, nvidia.com/gpu: 8}}`), "spec.guarantee.resource", "guarantee is above capability")
	w.refused(queue("{deserved: {memory: 2Gi}, capability: {memory: 1Gi}}"), "spec.deserved", "deserved is above capability")
	w.refused(queue("{capability: {cpu: -1}}"), "spec.capability", "negative")
	w.refused("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: bad}, spec: {minMember: 0}}", "spec.minMember")
	w.refused("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: bad}, spec: {minMember: -2}}", "spec.minMember")

	// A cycle of dependencies is beyond CEL.
	w.apply(jobManifest("circle", "", task("a", 1, "dependsOn: {name: [b]}"), task("b", 1, "dependsOn: {name: [a]}")))
	if st := w.reaches("circle", batch.Failed).Status.State; !strings.HasPrefix(st.Message, "spec.tasks[0].dependsOn") {
		w.t.Errorf("state %+v", st)
	}
	// A name that a task without one gets, too.
	w.apply(jobManifest("twins", "", strings.Replace(task("x", 1), "name: x\n    ", "", 1), task("default0", 1)))
	if st := w.reaches("twins", batch.Failed).Status.State; !strings.HasPrefix(st.Message, "spec.tasks[1].name") {
		w.t.Errorf("state %+v", st)
	}
	// What no pattern keeps out and Go cannot read: the job fails, and no other is kept
	// from being seen.
	w.apply(strings.Replace(jobManifest("garbled", "", task("a", 1)), "nvidia.com/gpu: 1}", `nvidia.com/gpu: "1e1.5"}`, 1))
	w.eventually("job garbled fails", 10*time.Second, func() (bool, string) {
		o, err := w.dynamic.Resource(batch.SchemeGroupVersion.WithResource("jobs")).Namespace("default").Get(context.Background(), "garbled", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		state, _, _ := unstructured.NestedStringMap(o.Object, "status", "state")
		return state["phase"] == string(batch.Failed) && strings.HasPrefix(state["message"], "spec: quantities must match"), fmt.Sprint(state)
	})
	// What only the pods' own admission knows.
	w.apply(jobManifest("classless", "priorityClassName: royal", task("a", 1)))
	w.says("classless", "FailedCreate", "no PriorityClass with name royal")
	w.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: royal}, value: 7}")
	if st := w.reaches("classless", batch.Running).Status.State; st.Message != "" {
		w.t.Errorf("state %+v", st)
	}
	// What is fixed once a job exists.
	w.apply(jobManifest("fixed", "", task("a", 1)))
	w.refused(jobManifest("fixed", "queue: other", task("a", 1)), "spec.queue")
	w.refused(jobManifest("fixed", "", task("b", 1)), "spec.tasks")
	w.refused(jobManifest("fixed", "plugins: {teleport: []}", task("a", 1)), "spec.plugins")
}

func queuesCount(w *world) {
	w.apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: org}, spec: {weight: 1}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team}, spec: {weight: 1, parent: org, capability: {nvidia.com/gpu: 8}}}`)
	w.apply(jobManifest("counted", "queue: team", task("worker", 2)))
	w.running("counted", 2)
	for _, name := range []string{"team", "org"} {
		w.eventually("queue "+name+" holds two GPUs", 10*time.Second, func() (bool, string) {
			st := w.queue(name)
			gpus := st.Allocated["nvidia.com/gpu"]
			return gpus.Value() == 2 && st.State == scheduling.QueueStateOpen && (name == "org" || st.Running == 1), fmt.Sprintf("%+v", st)
		})
	}
	w.apply(`{apiVersion: v1, kind: Pod, metadata: {name: half, labels: {tangram.dev/queue: team}}, spec: {schedulerName: gpu-scheduler,
  containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 40960}}}]}}`)
	w.eventually("half a GPU is half a GPU", 10*time.Second, func() (bool, string) {
		gpus := w.queue("team").Allocated["nvidia.com/gpu"]
		return gpus.String() == "2500m", gpus.String()
	})
	w.gone("half")
	w.command("Queue", "team", bus.CloseQueueAction)
	w.eventually("the queue is closing", 10*time.Second, func() (bool, string) {
		return w.queue("team").State == scheduling.QueueStateClosing, fmt.Sprintf("%+v", w.queue("team"))
	})
	w.apply(jobManifest("late", "queue: team", task("worker", 1)))
	w.eventually("a job in a closed queue waits", 10*time.Second, func() (bool, string) {
		st := w.job("late").Status.State
		return st.Reason == "QueueClosed", fmt.Sprintf("%+v", st)
	})
	w.ends("counted-worker-0", 0)
	w.ends("counted-worker-1", 0)
	w.reaches("counted", batch.Completed)
	w.eventually("the queue holds nothing", 10*time.Second, func() (bool, string) {
		st := w.queue("team")
		return len(st.Allocated) == 0 && st.Completed == 1 && st.Running == 0, fmt.Sprintf("%+v", st)
	})
	w.command("Queue", "team", bus.OpenQueueAction)
	w.reaches("late", batch.Running)
}

func queueTree(w *world) {
	for _, name := range []string{"root", "default"} {
		if st := w.queue(name); st.State != scheduling.QueueStateOpen {
			w.t.Errorf("queue %s: %+v", name, st)
		}
	}
	w.apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: orphan}, spec: {parent: nobody}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: hen}, spec: {parent: egg}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: egg}, spec: {parent: hen}}`)
	w.event("Queue", "orphan", "spec.parent", `"nobody" does not exist`)
	w.event("Queue", "hen", "spec.parent", "above itself")
	// A circle of three, closed by an update; and a queue that has nothing to do with it.
	queue := func(name, parent string) {
		w.apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: {parent: %q}}", name, parent))
	}
	queue("low", "mid")
	queue("mid", "high")
	queue("high", "root")
	w.eventually("they have their places", 10*time.Second, func() (bool, string) {
		return w.queue("low").State == scheduling.QueueStateOpen, ""
	})
	queue("high", "low")
	queue("apart", "root")
	w.event("Queue", "mid", `spec.parent: queue "mid" is above itself`)
	for _, name := range []string{"orphan", "hen", "egg", "low", "mid", "high"} {
		w.eventually("queue "+name+" has no place", 10*time.Second, func() (bool, string) {
			st := w.queue(name)
			return st.State == scheduling.QueueStateUnknown, fmt.Sprintf("%+v", st)
		})
	}
	w.apply(jobManifest("astray", "queue: orphan", task("worker", 1)))
	w.apply(jobManifest("above", "queue: root", task("worker", 1)))
	w.apply(jobManifest("apart", "queue: apart", task("worker", 1)))
	w.reaches("apart", batch.Running) // others' mistakes are not its own
	w.says("astray", "QueueInvalid", `spec.queue: queue "orphan" has no place`)
	w.says("above", "QueueHasQueues", `spec.queue: queue "root" takes no jobs`)
	queue("orphan", "root")
	w.reaches("astray", batch.Running)
	if err := w.dynamic.Resource(scheduling.SchemeGroupVersion.WithResource("queues")).Delete(context.Background(), "default", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	w.eventually("the default queue is back", 10*time.Second, func() (bool, string) {
		return w.queue("default").State == scheduling.QueueStateOpen, ""
	})
}
