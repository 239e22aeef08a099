package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// job is a job "j" with tasks given as name=replicas.
func job(phase batch.JobPhase, tasks string, change ...func(*batch.Job)) *batch.Job {
	j := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batch.JobSpec{MaxRetry: 3}}
	j.Status.State = batch.JobState{Phase: phase, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}
	for word := range strings.FieldsSeq(tasks) {
		name, n, _ := strings.Cut(word, "=")
		var replicas int32
		fmt.Sscan(n, &replicas)
		j.Spec.Tasks = append(j.Spec.Tasks, batch.TaskSpec{Name: name, Replicas: replicas})
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func policy(event bus.Event, action bus.Action) func(*batch.Job) {
	return func(j *batch.Job) {
		j.Spec.Policies = append(j.Spec.Policies, batch.LifecyclePolicy{Event: event, Action: action})
	}
}

// pods reads "task-index:phase[@version][!code][-][^]" words; a minus at the end means
// that others delete the pod, a caret that it was evicted and the object stays.
func pods(words string) []Pod {
	phases := map[string]v1.PodPhase{"P": v1.PodPending, "R": v1.PodRunning, "S": v1.PodSucceeded, "F": v1.PodFailed}
	var out []Pod
	for word := range strings.FieldsSeq(words) {
		p := Pod{Since: noon.Add(-10 * time.Second)}
		word, p.Evicted = strings.CutSuffix(word, "^")
		word, p.Leaving = strings.CutSuffix(word, "-")
		slot, rest, _ := strings.Cut(word, ":")
		task, index, _ := strings.Cut(slot, "-")
		rest, code, failed := strings.Cut(rest, "!")
		rest, version, _ := strings.Cut(rest, "@")
		fmt.Sscan(version, &p.Version)
		p.Task, p.Phase = task, phases[rest]
		fmt.Sscan(index, &p.Index)
		if failed {
			p.ExitCodes = make([]int32, 1)
			fmt.Sscan(code, &p.ExitCodes[0])
		}
		p.Name = p.PodName("j")
		p.UID = types.UID(word)
		out = append(out, p)
	}
	return out
}

// describe is a plan in one line.
func describe(p Plan) string {
	st := p.Status
	text := fmt.Sprintf("%s v%d r%d", st.State.Phase, st.Version, st.RetryCount)
	for _, s := range p.Create {
		text += fmt.Sprintf(" +%s-%d", s.Task, s.Index)
	}
	for _, d := range p.Delete {
		text += fmt.Sprintf(" -%s-%d", d.Task, d.Index)
	}
	if p.Wake > 0 {
		text += fmt.Sprintf(" wake %v", p.Wake)
	}
	if p.Expired {
		text += " expired"
	}
	return text
}

func TestDecide(t *testing.T) {
	minSuccess := func(n int32) func(*batch.Job) { return func(j *batch.Job) { j.Spec.MinSuccess = &n } }
	minAvailable := func(n int32) func(*batch.Job) { return func(j *batch.Job) { j.Spec.MinAvailable = n } }
	ttl := func(n int32) func(*batch.Job) { return func(j *batch.Job) { j.Spec.TTLSecondsAfterFinished = &n } }
	retried := func(n int32) func(*batch.Job) { return func(j *batch.Job) { j.Status.RetryCount = n } }
	version := func(n int32, notes ...string) func(*batch.Job) {
		return func(j *batch.Job) {
			j.Status.Version = n
			for i := 0; i < len(notes); i += 2 {
				setNote(&j.Status, notes[i], notes[i+1])
			}
		}
	}
	after := func(task, other string) func(*batch.Job) {
		return func(j *batch.Job) {
			i := slices.IndexFunc(j.Spec.Tasks, func(t batch.TaskSpec) bool { return t.Name == task })
			j.Spec.Tasks[i].DependsOn = &batch.DependsOn{Name: []string{other}}
		}
	}
	known := func(task string, n int32) func(*batch.Job) {
		return func(j *batch.Job) {
			j.Status.TaskStatusCount = map[string]batch.TaskState{task: {Phase: map[v1.PodPhase]int32{v1.PodRunning: n}}}
		}
	}
	wait := func(d time.Duration) func(*batch.Job) {
		return func(j *batch.Job) { j.Spec.Policies[0].Timeout = &metav1.Duration{Duration: d} }
	}
	code := func(n int32, action bus.Action) func(*batch.Job) {
		return func(j *batch.Job) {
			j.Spec.Policies = append(j.Spec.Policies, batch.LifecyclePolicy{ExitCode: &n, Action: action})
		}
	}
	ofTask := func(i int, event bus.Event, action bus.Action) func(*batch.Job) {
		return func(j *batch.Job) {
			j.Spec.Tasks[i].Policies = []batch.LifecyclePolicy{{Event: event, Action: action}}
		}
	}
	for _, test := range []struct {
		name string
		job  *batch.Job
		pods string
		want string
	}{
		{"a new job", job("", "a=2 b=1"), "", "Pending v0 r0 +a-0 +a-1 +b-0"},
		{"not enough run", job(batch.Pending, "a=2"), "a-0:R a-1:P", "Pending v0 r0"},
		{"all run", job(batch.Pending, "a=2"), "a-0:R a-1:R", "Running v0 r0"},
		{"the minimum runs", job(batch.Pending, "a=3", minAvailable(2)), "a-0:R a-1:R", "Running v0 r0 +a-2"},
		{"one that succeeded counts", job(batch.Pending, "a=2"), "a-0:R a-1:S", "Running v0 r0"},
		{"below the minimum again", job(batch.Running, "a=2"), "a-0:R a-1:P", "Pending v0 r0"},
		{"all succeeded", job(batch.Running, "a=2"), "a-0:S a-1:S", "Completed v0 r0"},
		{"enough succeeded", job(batch.Running, "a=2", minAvailable(1)), "a-0:S a-1:F", "Completed v0 r0"},
		{"too few succeeded", job(batch.Running, "a=2"), "a-0:S a-1:F", "Failed v0 r0"},
		{"others still run", job(batch.Running, "a=2"), "a-0:R a-1:F", "Running v0 r0"},
		{"minSuccess reached", job(batch.Running, "a=3", minSuccess(1)), "a-0:S a-1:R a-2:R", "Completing v0 r0 -a-1 -a-2"},
		{"minSuccess out of reach", job(batch.Running, "a=2", minSuccess(2)), "a-0:S a-1:F", "Failed v0 r0"},
		{"completing goes on", job(batch.Completing, "a=2"), "a-0:S a-1:R", "Completing v0 r0 -a-1"},
		{"completing waits", job(batch.Completing, "a=2"), "a-0:S a-1:R-", "Completing v0 r0"},
		{"completing ends", job(batch.Completing, "a=2"), "a-0:S", "Completed v0 r0"},
		{"a completed job makes nothing", job(batch.Completed, "a=2"), "a-0:S", "Completed v0 r0"},
		{"a failed job stops the rest", job(batch.Failed, "a=2"), "a-0:F a-1:R", "Failed v0 r0 -a-1"},

		{"restart the job", job(batch.Running, "a=2", policy(bus.PodFailedEvent, bus.RestartJobAction)), "a-0:R a-1:F!1", "Restarting v1 r1 -a-0 -a-1"},
		{"restart the task", job(batch.Running, "a=2 b=1", policy(bus.PodFailedEvent, bus.RestartTaskAction)), "a-0:R a-1:F b-0:R", "Restarting v1 r1 -a-0 -a-1"},
		{"restart pods, once for all", job(batch.Running, "a=3", policy(bus.PodFailedEvent, bus.RestartPodAction)), "a-0:F a-1:R a-2:F", "Restarting v1 r1 -a-0 -a-2"},
		{"no retry left", job(batch.Running, "a=2", policy(bus.PodFailedEvent, bus.RestartJobAction), retried(3)), "a-0:R a-1:F", "Failed v0 r3 -a-0"},
		{"restarting waits for old pods", job(batch.Restarting, "a=2", version(1, floorOfJob, "1")), "a-0:R- a-1:F", "Restarting v1 r0 -a-1"},
		{"restarting begins anew", job(batch.Restarting, "a=2", version(1, floorOfJob, "1")), "", "Pending v1 r0 +a-0 +a-1"},
		{"pods of this version count", job(batch.Pending, "a=2", version(1, floorOfJob, "1")), "a-0:R@1 a-1:R@1", "Running v1 r0"},
		{"stale pods do not", job(batch.Pending, "a=2", version(1, floorOfJob, "1")), "a-0:R@1 a-1:R@0", "Pending v1 r0 -a-1"},
		{"other tasks keep their pods", job(batch.Pending, "a=1 b=1", version(1, floorOfTask+"a", "1")), "a-0:R@0- b-0:R@0", "Pending v1 r0"},

		{"the task's policy comes first", job(batch.Running, "a=1", policy(bus.PodFailedEvent, bus.RestartJobAction), ofTask(0, bus.PodFailedEvent, bus.AbortJobAction)), "a-0:F", "Aborting v0 r0"},
		{"the graver action comes first", job(batch.Running, "a=1 b=1", ofTask(0, bus.PodFailedEvent, bus.RestartTaskAction), ofTask(1, bus.PodFailedEvent, bus.TerminateJobAction)), "a-0:F b-0:F", "Terminating v0 r0"},
		{"by exit code", job(batch.Running, "a=2", code(3, bus.AbortJobAction), policy(bus.PodFailedEvent, bus.RestartJobAction)), "a-0:R a-1:F!3", "Aborting v0 r0 -a-0"},
		{"by another exit code", job(batch.Running, "a=2", code(4, bus.AbortJobAction)), "a-0:R a-1:F!3", "Running v0 r0"},
		{"any event", job(batch.Running, "a=2", policy(bus.AnyEvent, bus.TerminateJobAction)), "a-0:R a-1:F", "Terminating v0 r0 -a-0"},
		{"any event is no pod that runs", job(batch.Running, "a=2", policy(bus.AnyEvent, bus.TerminateJobAction)), "a-0:R a-1:P", "Pending v0 r0"},
		{"a task that completed", job(batch.Running, "a=1 b=1", ofTask(0, bus.TaskCompletedEvent, bus.CompleteJobAction)), "a-0:S b-0:R", "Completing v0 r0 -b-0"},
		{"a task that failed", job(batch.Running, "a=1 b=1", policy(bus.TaskFailedEvent, bus.TerminateJobAction)), "a-0:F b-0:R", "Terminating v0 r0 -b-0"},
		{"a pod that is thrown out", job(batch.Running, "a=2", policy(bus.PodEvictedEvent, bus.RestartJobAction)), "a-0:R a-1:R-", "Restarting v1 r0 -a-0"},
		{"a pod that disappeared", job(batch.Running, "a=2", policy(bus.PodEvictedEvent, bus.RestartJobAction), known("a", 2)), "a-0:R", "Restarting v1 r0 -a-0"},
		{"a pod that never was", job(batch.Pending, "a=2", policy(bus.PodEvictedEvent, bus.RestartJobAction), known("a", 1)), "a-0:R", "Pending v0 r0 +a-1"},
		{"not yet", job(batch.Running, "a=2", policy(bus.PodFailedEvent, bus.RestartJobAction), wait(time.Minute)), "a-0:R a-1:F", "Running v0 r0 wake 50s"},
		{"now", job(batch.Running, "a=2", policy(bus.PodFailedEvent, bus.RestartJobAction), wait(10*time.Second)), "a-0:R a-1:F", "Restarting v1 r1 -a-0 -a-1"},
		{"a pod that is pending for too long", job(batch.Pending, "a=1", policy(bus.PodPendingEvent, bus.AbortJobAction), wait(5*time.Second)), "a-0:P", "Aborting v0 r0 -a-0"},

		{"fewer replicas", job(batch.Running, "a=1"), "a-0:R a-1:R a-2:R-", "Running v0 r0 -a-1"},
		{"a name in use is waited for", job(batch.Running, "a=2", minAvailable(1)), "a-0:R a-1:R-", "Running v0 r0"},
		{"who depends waits", job("", "a=1 b=2", after("b", "a")), "", "Pending v0 r0 +a-0"},
		{"who depends comes", job(batch.Pending, "a=1 b=2", after("b", "a")), "a-0:R", "Pending v0 r0 +b-0 +b-1"},
		{"who depends stays", job(batch.Running, "a=1 b=2", after("b", "a"), minAvailable(1)), "a-0:F b-0:R", "Running v0 r0 +b-1"},
		{"who depends in vain", job(batch.Pending, "a=1 b=2", after("b", "a"), minAvailable(1)), "a-0:F", "Failed v0 r0"},

		{"kept for its time", job(batch.Completed, "a=1", ttl(90)), "a-0:S", "Completed v0 r0 wake 30s"},
		{"over its time", job(batch.Completed, "a=1", ttl(60)), "a-0:S", "Completed v0 r0 expired"},
		{"aborted jobs may come back", job(batch.Aborted, "a=1", ttl(0)), "", "Aborted v0 r0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Decide(test.job, Observed{Pods: pods(test.pods)}, noon)
			if got := describe(p); got != test.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, test.want, p.Status.State.Message)
			}
		})
	}
}

func TestProblemsAndCommands(t *testing.T) {
	hold := &Problem{"UnknownQueue", "spec.queue: no such"}
	p := Decide(job("", "a=1"), Observed{Hold: hold}, noon)
	if got := describe(p); got != "Pending v0 r0" || p.Status.State.Message != hold.Message {
		t.Errorf("held: %s, %+v", got, p.Status.State)
	}
	waiting := job("", "a=1")
	waiting.Status = p.Status
	p = Decide(waiting, Observed{}, noon)
	if got := describe(p); got != "Pending v0 r0 +a-0" || p.Status.State.Message != "" {
		t.Errorf("no longer held: %s, %+v", got, p.Status.State)
	}
	p = Decide(job(batch.Running, "a=1"), Observed{Pods: pods("a-0:R"), Fault: &Problem{"InvalidPlugin", "spec.plugins.x: unknown"}}, noon)
	if got := describe(p); got != "Failed v0 r0 -a-0" || p.Status.State.Message != "spec.plugins.x: unknown" {
		t.Errorf("faulty: %s, %+v", got, p.Status.State)
	}
	for _, test := range []struct {
		phase  batch.JobPhase
		action bus.Action
		want   string
	}{
		{batch.Running, bus.AbortJobAction, "Aborting v0 r0 -a-0"},
		{batch.Running, bus.TerminateJobAction, "Terminating v0 r0 -a-0"},
		{batch.Running, bus.CompleteJobAction, "Completing v0 r0 -a-0"},
		{batch.Running, bus.RestartJobAction, "Restarting v1 r0 -a-0"},
		{batch.Running, bus.ResumeJobAction, "Running v0 r0"},
		{batch.Restarting, bus.AbortJobAction, "Aborting v0 r0 -a-0"},
		{batch.Aborted, bus.ResumeJobAction, "Restarting v1 r0 -a-0"},
		{batch.Completed, bus.RestartJobAction, "Completed v0 r0 -a-0"},
	} {
		seen := Observed{Pods: pods("a-0:R"), Command: &Command{"u1", test.action}}
		j := job(test.phase, "a=1")
		p := Decide(j, seen, noon)
		if got := describe(p); got != test.want {
			t.Errorf("%s when %s: %s, want %s", test.action, test.phase, got, test.want)
		}
		// The same command again has no effect, whatever happened in between.
		j.Status = p.Status
		j.Status.State.Phase = batch.Running
		j.Status.ControlledResources = p.Status.ControlledResources
		again := Decide(j, Observed{Pods: pods("a-0:R@1"), Command: seen.Command}, noon)
		if again.Status.State.Phase != batch.Running {
			t.Errorf("%s again: %s", test.action, describe(again))
		}
	}
	unknown := Decide(job(batch.Running, "a=2", policy(bus.JobUnknownEvent, bus.RestartJobAction)), Observed{Pods: pods("a-0:R a-1:P"), Unknown: true}, noon)
	if got := describe(unknown); got != "Restarting v1 r1 -a-0 -a-1" {
		t.Errorf("unknown: %s", got)
	}
}

func TestPartitions(t *testing.T) {
	j := job(batch.Running, "a=4", policy(bus.PodFailedEvent, bus.RestartPartitionAction))
	j.Spec.Tasks[0].PartitionPolicy = &batch.PartitionPolicySpec{TotalPartitions: 2, PartitionSize: 2}
	p := Decide(j, Observed{Pods: pods("a-0:R a-1:R a-2:R a-3:F")}, noon)
	if got := describe(p); got != "Restarting v1 r1 -a-2 -a-3" {
		t.Error(got)
	}
}

func TestDefaults(t *testing.T) {
	two := int32(2)
	j := &batch.Job{Spec: batch.JobSpec{Tasks: []batch.TaskSpec{{Replicas: 3, MinAvailable: &two}, {Name: "b", Replicas: 1}}}}
	s := SpecOf(j)
	if s.MinAvailable != 3 || s.Tasks[0].Name != "default0" || s.Queue != "default" || s.Scheduler != "volcano" || s.Replicas() != 4 {
		t.Errorf("%+v", s)
	}
}

// TestTrouble: a job says why its pods cannot be created, also when some can, and no
// more when they are there; why it was restarted it goes on to say.
func TestTrouble(t *testing.T) {
	j := job(batch.Pending, "a=2")
	step := func(trouble *Problem, there string) batch.JobState {
		j.Status = Decide(j, Observed{Pods: pods(there), Trouble: trouble}, noon).Status
		return j.Status.State
	}
	quota := &Problem{"FailedCreate", "exceeded quota"}
	for _, there := range []string{"", "a-0:P"} {
		if st := step(quota, there); st.Phase != batch.Pending || st.Message != quota.Message {
			t.Errorf("%q: %+v", there, st)
		}
	}
	if st := step(nil, "a-0:P a-1:P"); st.Reason != "" || st.Message != "" {
		t.Errorf("%+v", st)
	}
	j.Status.State.Reason, j.Status.State.Message = string(bus.RestartJobAction), "pod failed"
	if st := step(nil, "a-0:P a-1:P"); st.Message != "pod failed" {
		t.Errorf("%+v", st)
	}
}

func TestDependencyCycle(t *testing.T) {
	j := job("", "a=1 b=1 c=1")
	for i, other := range []string{"b", "c", "a"} {
		j.Spec.Tasks[i].DependsOn = &batch.DependsOn{Name: []string{other}}
	}
	s := SpecOf(j)
	if err := s.Validate(); err == nil || err.Error() != "spec.tasks[0].dependsOn: task a waits for itself" {
		t.Error(err)
	}
	j.Spec.Tasks[2].DependsOn = nil
	if s := SpecOf(j); s.Validate() != nil {
		t.Error(s.Validate())
	}
}

// TestSameNames: the first task has no name and gets the one the second has.
func TestSameNames(t *testing.T) {
	s := SpecOf(job("", "=1 default0=1"))
	if err := s.Validate(); err == nil || err.Error() != "spec.tasks[1].name: spec.tasks[0] is called default0, too" {
		t.Errorf("got %v", err)
	}
}

// TestEvictionsAreNotFailures: restarts because pods were evicted or deleted by others
// are counted apart. They use up no retry, however many there are.
func TestEvictionsAreNotFailures(t *testing.T) {
	exhausted := func(j *batch.Job) { j.Status.RetryCount = 3 }
	before := func(n string) func(*batch.Job) { return func(j *batch.Job) { setNote(&j.Status, evictions, n) } }
	evicted, failed := policy(bus.PodEvictedEvent, bus.RestartJobAction), policy(bus.PodFailedEvent, bus.RestartJobAction)
	taskFailed, pod := policy(bus.TaskFailedEvent, bus.RestartJobAction), policy(bus.PodFailedEvent, bus.RestartPodAction)
	for _, test := range []struct {
		name      string
		job       *batch.Job
		pods      string
		want      string
		evictions string
	}{
		{"evicted, no retry left", job(batch.Running, "a=2", evicted, exhausted), "a-0:R a-1:R-", "Restarting v1 r3 -a-0", "1"},
		{"evicted for the tenth time", job(batch.Running, "a=2", evicted, before("9")), "a-0:R a-1:R-", "Restarting v1 r0 -a-0", "10"},
		{"evicted by the kubelet, seen as a failure", job(batch.Running, "a=2", failed), "a-0:R a-1:F!137^", "Restarting v1 r0 -a-0 -a-1", "1"},
		{"its peer failed because of it", job(batch.Running, "a=2", failed), "a-0:F!1 a-1:R-", "Restarting v1 r0 -a-0", "1"},
		{"a task that failed by evictions alone", job(batch.Running, "a=2", taskFailed), "a-0:F^ a-1:F^", "Restarting v1 r0 -a-0 -a-1", "1"},
		{"a task in which one failed by itself", job(batch.Running, "a=2", taskFailed), "a-0:F^ a-1:F!1", "Restarting v1 r1 -a-0 -a-1", ""},
		{"a failure beside an old eviction that no policy names", job(batch.Running, "a=2 b=1", pod, func(j *batch.Job) {
			j.Spec.Tasks[1].Policies = []batch.LifecyclePolicy{{Event: bus.PodFailedEvent, Action: bus.AbortJobAction, Timeout: &metav1.Duration{Duration: time.Hour}}}
		}), "a-0:F!1 a-1:R b-0:F^", "Restarting v1 r1 -a-0", ""},
		{"a failure", job(batch.Running, "a=2", failed), "a-0:R a-1:F!1", "Restarting v1 r1 -a-0 -a-1", ""},
		{"a failure, no retry left", job(batch.Running, "a=2", failed, exhausted), "a-0:R a-1:F!1", "Failed v0 r3 -a-0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Decide(test.job, Observed{Pods: pods(test.pods)}, noon)
			if got := describe(p); got != test.want && !strings.HasPrefix(got, test.want+" wake") {
				t.Errorf("got  %s\nwant %s\n(%s)", got, test.want, p.Status.State.Message)
			}
			if got := p.Status.ControlledResources[evictions]; got != test.evictions {
				t.Errorf("status.controlledResources.evictions is %q, want %q", got, test.evictions)
			}
			if said := strings.Contains(p.Status.State.Message, "after evictions"); said != (test.evictions != "") {
				t.Errorf("message %q", p.Status.State.Message)
			}
		})
	}
}
