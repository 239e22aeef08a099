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
	// jobSetBySelector: the same by labels that somebody put on the nodes before; no pod
	// waits for another.
	jobSetBySelector = "alpha.jobset.sigs.k8s.io/node-selector"
)

// findJobSet: the label names the set. Leaders are all pods but those that JobSet holds
// back.
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

// jobSetSize: the pods of all replicated jobs, but those of jobs that JobSet has not
// created yet because they wait for others (dependsOn, or startupPolicy InOrder), and of
// those that are over.
func jobSetSize(o *unstructured.Unstructured) int { return jobSetCount(o, false, "") }

// jobSetSizeFor: a pod of a replicated job shows that the job was created, which JobSet
// writes into its status a moment later.
func jobSetSizeFor(o *unstructured.Unstructured, task string) int { return jobSetCount(o, false, task) }

// jobSetFirst: of a Job with a domain of its own the first pod.
func jobSetFirst(o *unstructured.Unstructured, task string) int { return jobSetCount(o, true, task) }

// jobSetCount counts pods that can exist now; leaders: only those that can exist before
// any has a place; created: a replicated job that has been created, whatever the status says.
func jobSetCount(o *unstructured.Unstructured, leaders bool, created string) int {
	var err error
	set := reader{o.Object, &err}
	inOrder := set.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
	total, reached := 0, false
	jobs, _, _ := unstructured.NestedSlice(o.Object, "spec", "replicatedJobs")
	replicas := map[string]int64{}
	for _, j := range jobs {
		job, ok := j.(map[string]any)
		if !ok {
			continue
		}
		r := reader{job, &err}
		name, n := r.text("name"), int64(1)
		if given, ok := r.number("replicas"); ok {
			n = max(0, min(given, maxGang))
		}
		replicas[name] = n
		if name != created && !set.dependenciesMet(job, replicas) {
			continue
		}
		reached = reached || name == created
		if name != created && set.jobIs(name, "Complete", n) {
			continue
		}
		each := max(1, r.parallelism("template", "spec"))
		if leaders && (waitsForLeader(o.Object) || waitsForLeader(job, "template")) {
			each = 1
		}
		total += int(n) * each
		if inOrder && (created == "" || reached) && !set.jobIs(name, "Ready", n) {
			break // those after it are created when it is ready
		}
	}
	return min(total, maxGang)
}

// jobOver says whether a replicated job of a JobSet is over: its pods do not count any more.
func jobOver(o *unstructured.Unstructured, task string) bool {
	var err error
	jobs, _, _ := unstructured.NestedSlice(o.Object, "spec", "replicatedJobs")
	for _, j := range jobs {
		job, _ := j.(map[string]any)
		r := reader{job, &err}
		if r.text("name") != task {
			continue
		}
		n := int64(1)
		if given, ok := r.number("replicas"); ok {
			n = max(0, min(given, maxGang))
		}
		return reader{o.Object, &err}.jobIs(task, "Complete", n)
	}
	return false
}

// waitsForLeader says whether what lies at a path of an object asks for a domain of its own
// for each Job, in the way that makes pods wait.
func waitsForLeader(object map[string]any, path ...string) bool {
	annotations, _, _ := unstructured.NestedMap(object, append(path, "metadata", "annotations")...)
	_, exclusive := annotations[jobSetExclusive]
	_, bySelector := annotations[jobSetBySelector]
	return exclusive && !bySelector
}

// dependenciesMet says whether a JobSet has created a replicated job: all jobs that it
// depends on have the required status.
func (r reader) dependenciesMet(job map[string]any, replicas map[string]int64) bool {
	list, _, _ := unstructured.NestedSlice(job, "dependsOn")
	for _, d := range list {
		if on, ok := d.(map[string]any); ok {
			dependency := reader{on, r.err}
			if name := dependency.text("name"); !r.jobIs(name, dependency.text("status"), replicas[name]) {
				return false
			}
		}
	}
	return true
}

// jobIs says whether all replicas of a JobSet's replicated job are Ready, or Complete. As
// for JobSet, what has failed has been ready.
func (r reader) jobIs(name, status string, replicas int64) bool {
	list, _, _ := unstructured.NestedSlice(r.object, "status", "replicatedJobsStatus")
	for _, s := range list {
		if state, ok := s.(map[string]any); ok {
			of := reader{state, r.err}
			if of.text("name") != name {
				continue
			}
			done, _ := of.number("succeeded")
			if status != "Complete" {
				ready, _ := of.number("ready")
				failed, _ := of.number("failed")
				done += ready + failed
			}
			return done >= replicas
		}
	}
	return replicas == 0
}
