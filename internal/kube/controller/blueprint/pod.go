package blueprint

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// Owner is the owner reference to the job, by which its objects are garbage-collected
// with it.
func Owner(job *batch.Job) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, batch.SchemeGroupVersion.WithKind("Job"))
}

// Pod is the pod of a slot at the job's current version.
func Pod(job *batch.Job, spec *lifecycle.Spec, slot lifecycle.Slot, plugins []Plugin) *v1.Pod {
	task := spec.Task(slot.Task)
	template := task.Template.DeepCopy()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: slot.PodName(job.Name), Namespace: job.Namespace,
			Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{Owner(job)},
		},
		Spec: template.Spec,
	}
	mark(pod, job, spec, slot)
	settle(&pod.Spec, job, spec)
	addVolumes(job, &pod.Spec)
	for _, p := range plugins {
		p.Change(pod, slot)
	}
	return pod
}

// mark writes the labels and annotations that identify the pod's job, task and index.
func mark(pod *v1.Pod, job *batch.Job, spec *lifecycle.Spec, slot lifecycle.Slot) {
	index := strconv.Itoa(int(slot.Index))
	labels := map[string]string{
		batch.JobNameKey:      job.Name,
		batch.JobNamespaceKey: job.Namespace,
		batch.TaskSpecKey:     slot.Task,
		batch.TaskIndex:       index,
		batch.QueueNameKey:    spec.Queue,
	}
	if part := spec.Task(slot.Task).PartitionOf(slot.Index); part >= 0 {
		labels[batch.TaskPartitionID] = strconv.Itoa(int(part))
	}
	pod.Labels = with(pod.Labels, labels)
	inherited := inherit(job)
	maps.Copy(inherited, pod.Annotations) // the template's own annotations take precedence
	pod.Annotations = with(inherited, map[string]string{
		batch.JobNameKey:                      job.Name,
		batch.TaskSpecKey:                     slot.Task,
		batch.TaskIndex:                       index,
		batch.QueueNameKey:                    spec.Queue,
		batch.JobVersion:                      strconv.Itoa(int(job.Status.Version)),
		batch.JobRetryCountKey:                strconv.Itoa(int(job.Status.RetryCount)),
		batch.PodTemplateKey:                  job.Name + "-" + slot.Task,
		scheduling.KubeGroupNameAnnotationKey: GroupName(job),
	})
}

// inherit is what pods inherit of the job's annotations: Volcano's and Tangram's, and
// the expected duration.
func inherit(job *batch.Job) map[string]string {
	out := map[string]string{}
	if e := job.Spec.RunningEstimate; e != nil {
		out[names.AnnotationRuntime] = e.Duration.String()
	}
	for key, value := range job.Annotations {
		if strings.HasPrefix(key, scheduling.AnnotationPrefix) || strings.HasPrefix(key, names.Group+"/") {
			out[key] = value
		}
	}
	return out
}

// settle fills in what the template leaves to the job.
func settle(s *v1.PodSpec, job *batch.Job, spec *lifecycle.Spec) {
	s.SchedulerName = cmp.Or(s.SchedulerName, spec.Scheduler)
	s.PriorityClassName = cmp.Or(s.PriorityClassName, job.Spec.PriorityClassName)
	// A pod's own default, Always, would keep a batch job from ever ending.
	s.RestartPolicy = cmp.Or(s.RestartPolicy, v1.RestartPolicyOnFailure)
	// Otherwise a pod on the host's network finds no service by name.
	if s.HostNetwork && s.DNSPolicy == "" {
		s.DNSPolicy = v1.DNSClusterFirstWithHostNet
	}
}

func with(m, more map[string]string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, more)
	return m
}

// eachContainer visits all containers, those that run first included.
func eachContainer(s *v1.PodSpec, visit func(*v1.Container)) {
	for i := range s.InitContainers {
		visit(&s.InitContainers[i])
	}
	for i := range s.Containers {
		visit(&s.Containers[i])
	}
}

// addEnv sets variables in all containers that do not set them themselves.
func addEnv(s *v1.PodSpec, vars ...v1.EnvVar) {
	eachContainer(s, func(c *v1.Container) {
		set := map[string]bool{}
		for _, e := range c.Env {
			set[e.Name] = true
		}
		for _, v := range vars {
			if !set[v.Name] {
				c.Env = append(c.Env, v)
			}
		}
	})
}
