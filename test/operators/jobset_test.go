package operators

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// jobs is a JobSet with two kinds of Jobs: one of a pod without GPUs, and n of parallel
// pods of a whole node each. more is added to the second kind.
func jobs(name, spec string, n, parallel int, more string) string {
	return fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s, namespace: default}
spec:
  %s
  replicatedJobs:
  - name: driver
    template: {spec: {template: {metadata: {annotations: {tangram.dev/runtime: 2s}}, spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: pause}]}}}}
  - name: worker
    replicas: %d
    %s
    template:
      spec: {parallelism: %d, completions: %d, template: {spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
`, name, spec, n, more, parallel, parallel)
}

// TestJobSet: all Jobs of a set start together, in one rack if asked for, or none does.
func TestJobSet(t *testing.T) {
	w := newWorld(t, "jobset")
	w.judge.expect("whole", 7, label(jobSet, "whole"))
	plain := parse(t, jobs("whole", "", 2, 3, ""))[0]
	// The driver runs as long as the others.
	unstructured.RemoveNestedField(plain.Object["spec"].(map[string]any)["replicatedJobs"].([]any)[0].(map[string]any), "template", "spec", "template", "metadata")
	w.create(plain)
	w.running(jobSet, "whole", 7)
	w.judge.expect("large", 4, label(jobSet, "large"))
	w.apply(jobs("large", "", 1, 3, ""))
	w.waiting(jobSet, "large", 4, "needs 4 members, 3 can be placed")
	w.remove("JobSet", "whole")
	w.running(jobSet, "large", 4)
}

// TestJobSetInOrder: Jobs that are created when others are ready are not waited for, and
// are a gang when they come.
func TestJobSetInOrder(t *testing.T) {
	w := newWorld(t, "jobset")
	for _, nth := range []int{0, 1} {
		o := w.sample("jobset", "104-StartupPolicy/README.md", "JobSet", nth)
		adapt(o, "order-"+number(nth), everywhere(2))
		w.create(o)
	}
	w.running(jobSet, "order-0", 3)
	w.running(jobSet, "order-1", 9)
	w.remove("JobSet", "order-0")
	w.remove("JobSet", "order-1")

	// Of the second stage all or none: of nine pods of a node each eight would fit.
	w.judge.expect("stages/worker", 9, both(label(jobSet, "stages"), label(replicated, "worker")))
	w.apply(jobs("stages", "startupPolicy: {startupPolicyOrder: InOrder}", 3, 3, ""))
	w.eventually("the driver runs, its workers wait", func(pods []*v1.Pod) (bool, string) {
		of := labelled(pods, jobSet, "stages")
		return bound(of) == 1 && len(of) == 10, summary(of)
	})
}

// TestJobSetDependsOn: the same by dependencies, until others are ready or complete.
func TestJobSetDependsOn(t *testing.T) {
	for _, status := range []string{"Ready", "Complete"} {
		t.Run(status, func(t *testing.T) {
			w := newWorld(t, "jobset")
			w.judge.expect("chain/worker", 6, both(label(jobSet, "chain"), label(replicated, "worker")))
			w.apply(jobs("chain", "", 2, 3, "dependsOn: [{name: driver, status: "+status+"}]"))
			w.eventually("the workers run", func(pods []*v1.Pod) (bool, string) {
				of := labelled(labelled(pods, jobSet, "chain"), replicated, "worker")
				return len(of) == 6 && bound(of) == 6, summary(pods)
			})
		})
	}
	// JobSet's own: initializers, a launcher, then nodes.
	w := newWorld(t, "jobset")
	o := adapt(w.sample("jobset", "672-serial-job-execution/README.md", "JobSet", 1), "mpi", everywhere(2))
	set(o, map[string]any{"tangram.dev/runtime": "1s"}, "spec", "replicatedJobs", "0", "template", "spec", "template", "metadata", "annotations")
	w.create(o)
	w.eventually("launcher and nodes run", func(pods []*v1.Pod) (bool, string) {
		of := labelled(pods, jobSet, "mpi")
		return len(labelled(of, replicated, "trainer-node")) == 3 && bound(labelled(of, replicated, "trainer-node")) == 3 &&
			bound(labelled(of, replicated, "launcher")) == 1, summary(of)
	})
}

// TestJobSetExclusive: each Job has a rack of its own. JobSet's webhook refuses the others
// of a Job until its first pod has a place.
func TestJobSetExclusive(t *testing.T) {
	w := newWorld(t, "jobset")
	o := parse(t, jobs("exclusive", "", 3, 2, ""))[0]
	o.SetAnnotations(map[string]string{"alpha.jobset.sigs.k8s.io/exclusive-topology": rackLabel})
	list := o.Object["spec"].(map[string]any)
	list["replicatedJobs"] = list["replicatedJobs"].([]any)[1:]
	w.judge.expect("exclusive", 3, label(jobSet, "exclusive"))
	w.create(o)
	w.running(jobSet, "exclusive", 6)
	if racks := w.racks(jobSet, "exclusive"); len(racks) != 3 {
		t.Errorf("three Jobs run in racks %v", racks)
	}
}
