package lifecycle

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// survey sorts the pods into those that count and those that do not, by the status
// as it is now. Called again after a restart has changed what counts.
func (m *machine) survey() {
	m.current, m.surplus, m.taken = map[string][]Pod{}, nil, map[Slot]bool{}
	for _, p := range m.seen.Pods {
		m.taken[p.Slot] = true
		t := m.spec.Task(p.Task)
		if t == nil || p.Index < 0 || p.Index >= t.Replicas || p.Version < floor(&m.status, p.Slot) {
			m.surplus = append(m.surplus, p)
			continue
		}
		m.current[p.Task] = append(m.current[p.Task], p)
	}
	for _, pods := range m.current {
		slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Index, b.Index) })
	}
	slices.SortFunc(m.surplus, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// count writes the numbers of pods into the status.
func (m *machine) count() {
	st := &m.status
	st.MinAvailable = m.spec.MinAvailable
	st.Pending, st.Running, st.Succeeded, st.Failed, st.Unknown = 0, 0, 0, 0, 0
	st.Terminating = int32(len(m.surplus))
	st.TaskStatusCount = nil
	for _, task := range slices.Sorted(maps.Keys(m.current)) {
		phases := map[v1.PodPhase]int32{}
		for _, p := range m.current[task] {
			phases[p.Phase]++
			switch {
			case p.Leaving:
				st.Terminating++
			case p.Phase == v1.PodPending:
				st.Pending++
			case p.Phase == v1.PodRunning:
				st.Running++
			case p.Phase == v1.PodSucceeded:
				st.Succeeded++
			case p.Phase == v1.PodFailed:
				st.Failed++
			default:
				st.Unknown++
			}
		}
		if st.TaskStatusCount == nil {
			st.TaskStatusCount = map[string]batch.TaskState{}
		}
		st.TaskStatusCount[task] = batch.TaskState{Phase: phases}
	}
}

// lost is how many pods of a task were counted in the status and are no more,
// although this controller did not delete them.
func lost(st *batch.JobStatus, spec *Spec, task string, now int) int {
	var known int32
	for _, n := range st.TaskStatusCount[task].Phase {
		known += n
	}
	return int(min(known, spec.Task(task).Replicas)) - now
}

// SomeLost says whether pods disappeared since the status was written. An informer
// may lag behind: ask the API server before deciding.
func SomeLost(job *batch.Job, pods []Pod) bool {
	spec := SpecOf(job)
	m := machine{spec: &spec, status: job.Status, seen: Observed{Pods: pods}}
	m.survey()
	return slices.ContainsFunc(spec.Tasks, func(t Task) bool {
		return lost(&job.Status, &spec, t.Name, len(m.current[t.Name])) > 0
	})
}
