package blueprint

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// GroupName is the name of the job's PodGroup. The UID is part of it, so that a job
// deleted and created again under its name is a different gang.
func GroupName(job *batch.Job) string { return fmt.Sprintf("%s-%s", job.Name, job.UID) }

// PodGroup is the gang of the job: the tasks that may start now. Tasks that depend on
// others join when those are up; counted from the beginning, they would keep the others
// from starting.
func PodGroup(job *batch.Job, spec *lifecycle.Spec, released map[string]bool) *scheduling.PodGroup {
	g := &scheduling.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: GroupName(job), Namespace: job.Namespace, Annotations: inherit(job), Labels: job.Labels,
			OwnerReferences: []metav1.OwnerReference{Owner(job)},
		},
		Spec: scheduling.PodGroupSpec{
			Queue: spec.Queue, PriorityClassName: job.Spec.PriorityClassName,
			NetworkTopology: networkTopology(job.Spec.NetworkTopology),
		},
	}
	var members int32
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if !released[t.Name] {
			continue
		}
		members += t.Replicas
		if t.HasMin {
			if g.Spec.MinTaskMember == nil {
				g.Spec.MinTaskMember = map[string]int32{}
			}
			g.Spec.MinTaskMember[t.Name] = t.Min
		}
		if t.Partition != nil {
			g.Spec.SubGroupPolicy = append(g.Spec.SubGroupPolicy, subGroup(t))
		}
	}
	g.Spec.MinMember = max(1, min(spec.MinAvailable, members))
	sum := minResources(spec, released, g.Spec.MinMember)
	g.Spec.MinResources = &sum
	return g
}

// subGroup makes each partition of a task a group of its own.
func subGroup(t *lifecycle.Task) scheduling.SubGroupPolicySpec {
	size, least := t.Partition.PartitionSize, t.Partition.MinPartitions
	return scheduling.SubGroupPolicySpec{
		Name: t.Name, SubGroupSize: &size, MinSubGroups: &least,
		NetworkTopology: networkTopology(t.Partition.NetworkTopology),
		LabelSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{batch.TaskSpecKey: t.Name}},
		MatchLabelKeys:  []string{batch.TaskPartitionID},
	}
}

func networkTopology(in *batch.NetworkTopologySpec) *scheduling.NetworkTopologySpec {
	if in == nil {
		return nil
	}
	return &scheduling.NetworkTopologySpec{
		Mode: scheduling.NetworkTopologyMode(in.Mode), HighestTierAllowed: in.HighestTierAllowed, HighestTierName: in.HighestTierName,
	}
}

// minResources is what the gang needs at least: each task's own minimum first, then
// further pods in the order of tasks up to the job's.
func minResources(spec *lifecycle.Spec, released map[string]bool, least int32) v1.ResourceList {
	sum := v1.ResourceList{}
	left := least
	take := func(t *lifecycle.Task, n int32) {
		n = min(n, left)
		left -= n
		for name, q := range requests(&t.Template.Spec) {
			q.Mul(int64(n))
			if n > 0 {
				total := sum[name]
				total.Add(q)
				sum[name] = total
			}
		}
	}
	own := func(t *lifecycle.Task) int32 {
		if t.HasMin {
			return t.Min
		}
		return 0
	}
	var tasks []*lifecycle.Task
	for i := range spec.Tasks {
		if t := &spec.Tasks[i]; released[t.Name] {
			tasks = append(tasks, t)
			take(t, own(t))
		}
	}
	for _, t := range tasks {
		take(t, t.Replicas-own(t))
	}
	return sum
}

// requests is what a pod requests, as Kubernetes counts it. A template has not passed
// the API server, which defaults missing requests to limits.
func requests(s *v1.PodSpec) v1.ResourceList {
	pod := &v1.Pod{Spec: *s.DeepCopy()}
	eachContainer(&pod.Spec, func(c *v1.Container) {
		for name, q := range c.Resources.Limits {
			if _, asked := c.Resources.Requests[name]; !asked {
				if c.Resources.Requests == nil {
					c.Resources.Requests = v1.ResourceList{}
				}
				c.Resources.Requests[name] = q
			}
		}
	})
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}
