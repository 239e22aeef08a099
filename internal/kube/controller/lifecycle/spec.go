package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// DefaultScheduler is the schedulerName of pods of a job that names none.
const DefaultScheduler = "volcano"

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

// defaultTaskRetries is how often a task's containers may be restarted in place
// before the task counts as failed, when it does not say.
const defaultTaskRetries = 3

// Spec is a job's spec with its defaults filled in. Volcano leaves that to a
// webhook; here they are not written back. It shares memory with the job.
type Spec struct {
	Tasks        []Task
	MinAvailable int32
	MinSuccess   int32 // 0: not asked for
	MaxRetry     int32
	Policies     []batch.LifecyclePolicy
	TTL          *time.Duration // nil: kept for ever
	Queue        string
	Scheduler    string
}

// Task is one task of a Spec.
type Task struct {
	Name      string
	Replicas  int32
	Min       int32 // how many make the task work: minAvailable, else all
	HasMin    bool  // the task itself said so
	MaxRetry  int32
	Template  *v1.PodTemplateSpec
	Policies  []batch.LifecyclePolicy
	DependsOn *batch.DependsOn
	Partition *batch.PartitionPolicySpec
}

// SpecOf fills in the defaults.
func SpecOf(job *batch.Job) Spec {
	in := &job.Spec
	s := Spec{
		MinAvailable: in.MinAvailable, MaxRetry: in.MaxRetry, Policies: in.Policies,
		Queue: cmp.Or(in.Queue, DefaultQueue), Scheduler: cmp.Or(in.SchedulerName, DefaultScheduler),
	}
	if in.MinSuccess != nil {
		s.MinSuccess = *in.MinSuccess
	}
	if in.TTLSecondsAfterFinished != nil {
		ttl := time.Duration(*in.TTLSecondsAfterFinished) * time.Second
		s.TTL = &ttl
	}
	var sum int32
	for i := range in.Tasks {
		t := taskOf(&in.Tasks[i], i)
		sum += t.Min
		s.Tasks = append(s.Tasks, t)
	}
	s.MinAvailable = cmp.Or(s.MinAvailable, sum)
	return s
}

func taskOf(in *batch.TaskSpec, i int) Task {
	t := Task{
		Name: cmp.Or(in.Name, fmt.Sprintf("%s%d", batch.DefaultTaskSpec, i)), Replicas: in.Replicas, Min: in.Replicas,
		MaxRetry: cmp.Or(in.MaxRetry, defaultTaskRetries),
		Template: &in.Template, Policies: in.Policies, DependsOn: in.DependsOn, Partition: in.PartitionPolicy,
	}
	if in.MinAvailable != nil {
		t.Min, t.HasMin = *in.MinAvailable, true
	}
	return t
}

// Task finds a task by name, or returns nil.
func (s *Spec) Task(name string) *Task {
	i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Tasks[i]
}

// Replicas is the number of pods of the whole job.
func (s *Spec) Replicas() int32 {
	var n int32
	for _, t := range s.Tasks {
		n += t.Replicas
	}
	return n
}

// Validate reports problems that the API server could not see, naming the field.
func (s *Spec) Validate() error {
	for i := range s.Tasks {
		if first := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == s.Tasks[i].Name }); first < i {
			return fmt.Errorf("spec.tasks[%d].name: spec.tasks[%d] is called %s, too", i, first, s.Tasks[i].Name)
		}
		if s.dependsOnItself(s.Tasks[i].Name, s.Tasks[i].Name, map[string]bool{}) {
			return fmt.Errorf("spec.tasks[%d].dependsOn: task %s waits for itself", i, s.Tasks[i].Name)
		}
	}
	return nil
}

// dependsOnItself follows dependsOn from one task looking for another.
func (s *Spec) dependsOnItself(from, target string, seen map[string]bool) bool {
	t := s.Task(from)
	if t == nil || t.DependsOn == nil || seen[from] {
		return false
	}
	seen[from] = true
	for _, next := range t.DependsOn.Name {
		if next == target || s.dependsOnItself(next, target, seen) {
			return true
		}
	}
	return false
}

// Slot is the place of one pod in a job.
type Slot struct {
	Task  string
	Index int32
}

// PodName is the name of the pod in a slot; always the same, so that no pod can be
// created twice.
func (s Slot) PodName(job string) string { return fmt.Sprintf("%s-%s-%d", job, s.Task, s.Index) }

// PartitionOf is the number of the partition an index belongs to, or -1.
func (t *Task) PartitionOf(index int32) int32 {
	if t.Partition == nil || t.Partition.PartitionSize <= 0 {
		return -1
	}
	return index / t.Partition.PartitionSize
}
