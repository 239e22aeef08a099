package dialect

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations of JobSet's pods.
const (
	labelJobSet        = "jobset.sigs.k8s.io/jobset-name"
	labelReplicatedJob = "jobset.sigs.k8s.io/replicatedjob-name"
	// jobSetExclusive gives each Job a domain of its own: JobSet's webhook refuses the
	// other pods of a Job until its first one has a place, and sends them to its domain.
	jobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	// jobSetBySelector: the same by labels that nodes have already; no pod waits for another.
	jobSetBySelector = "alpha.jobset.sigs.k8s.io/node-selector"
)

// findJobSet: the label names the set. Leaders are all pods but those that JobSet holds back.
func findJobSet(pod *v1.Pod) (Owned, bool) {
	name := pod.Labels[labelJobSet]
	_, waits := pod.Annotations[jobSetExclusive]
	if _, bySelector := pod.Annotations[jobSetBySelector]; bySelector || pod.Annotations[jobIndex] == "0" {
		waits = false
	}
	return Owned{
		Name: name, Gang: "jobset/" + pod.Namespace + "/" + name, Task: pod.Labels[labelReplicatedJob], Leader: !waits,
		Reference: metav1.OwnerReference{Kind: "JobSet", Name: name},
	}, name != ""
}

// jobIndex is the annotation of a Job's pod with its index.
const jobIndex = "batch.kubernetes.io/job-completion-index"

// jobSetSize: the pods of all replicated jobs, but those of jobs that are over, or that JobSet has not
// created because they wait for others (dependsOn, startupPolicy InOrder). A pod shows that its job
// was created before the status does.
func jobSetSize(o *unstructured.Unstructured, task string) int { return jobSetCount(o, false, task) }

// jobSetFirst: of a Job with a domain of its own the first pod.
func jobSetFirst(o *unstructured.Unstructured, task string) int { return jobSetCount(o, true, task) }

// jobSetCount counts pods that can exist now; leaders: only those that can exist before
// any has a place; created: a replicated job that has been created, whatever the status says.
func jobSetCount(o *unstructured.Unstructured, leaders bool, created string) int {
	set := readerOf(o)
	inOrder := set.text("spec.startupPolicy.startupPolicyOrder") == "InOrder"
	total, reached := 0, false
	replicas := map[string]int{}
	for _, job := range set.list("spec.replicatedJobs") {
		name, n := job.text("name"), job.count("replicas", 1, 0)
		replicas[name] = n
		if name != created && !set.dependenciesMet(job, replicas) {
			continue
		}
		reached = reached || name == created
		if name != created && set.jobIs(name, "Complete", n) {
			continue
		}
		each := max(1, job.in("template.spec").parallelism())
		if leaders && (set.waitsForLeader() || job.in("template").waitsForLeader()) {
			each = 1
		}
		total += n * each
		if inOrder && (created == "" || reached) && !set.jobIs(name, "Ready", n) {
			break // those after it are created when it is ready
		}
	}
	return min(total, maxGang)
}

// jobOver says whether a replicated job of a JobSet is over: its pods do not count any more.
func jobOver(o *unstructured.Unstructured, task string) bool {
	set := readerOf(o)
	for _, job := range set.list("spec.replicatedJobs") {
		if job.text("name") == task {
			return set.jobIs(task, "Complete", job.count("replicas", 1, 0))
		}
	}
	return false
}

// waitsForLeader says whether an object asks for a domain for each Job in the way that makes pods wait.
func (r reader) waitsForLeader() bool {
	annotations := r.in("metadata.annotations").object
	_, exclusive := annotations[jobSetExclusive]
	_, bySelector := annotations[jobSetBySelector]
	return exclusive && !bySelector
}

// dependenciesMet says whether all jobs that a replicated job depends on have the required status.
func (r reader) dependenciesMet(job reader, replicas map[string]int) bool {
	for _, on := range job.list("dependsOn") {
		if name := on.text("name"); !r.jobIs(name, on.text("status"), replicas[name]) {
			return false
		}
	}
	return true
}

// jobIs says whether all replicas of a JobSet's replicated job are Ready, or Complete. As
// for JobSet, what has failed has been ready.
func (r reader) jobIs(name, status string, replicas int) bool {
	for _, state := range r.list("status.replicatedJobsStatus") {
		if state.text("name") != name {
			continue
		}
		done, _ := state.number("succeeded")
		if status != "Complete" {
			ready, _ := state.number("ready")
			failed, _ := state.number("failed")
			done += ready + failed
		}
		return done >= int64(replicas)
	}
	return replicas == 0
}
