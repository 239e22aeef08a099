package lifecycle

import (
	"maps"
	"slices"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// plan derives the plan from the status that the decision has reached.
func (m *machine) plan() Plan {
	p := Plan{Status: m.status, Wake: m.wake}
	for _, s := range m.surplus {
		if !s.Leaving {
			p.Delete = append(p.Delete, s)
		}
	}
	switch m.phase() {
	case batch.Pending, batch.Running:
		p.Group = true
		if m.seen.Hold == nil {
			p.Create = m.missing()
		}
	case batch.Restarting:
		p.Group = true
	case batch.Completed:
		p.Group = true // kept: the queue's status counts completed groups
		p.Delete = append(p.Delete, m.unfinished()...)
	default:
		p.Delete = append(p.Delete, m.unfinished()...)
	}
	m.expire(&p)
	return p
}

// missing are the slots without a pod, in the order of tasks and indexes. A name that a
// terminating pod still uses must become free first.
func (m *machine) missing() []Slot {
	var out []Slot
	for i := range m.spec.Tasks {
		t := &m.spec.Tasks[i]
		if !m.released(t) {
			continue
		}
		for index := range t.Replicas {
			if s := (Slot{t.Name, index}); !m.taken[s] {
				out = append(out, s)
			}
		}
	}
	return out
}

// unfinished are the current pods that have not ended. Ended ones are kept for their
// logs.
func (m *machine) unfinished() []Pod {
	var out []Pod
	for _, task := range slices.Sorted(maps.Keys(m.current)) {
		for _, p := range m.current[task] {
			if !p.Ended() && !p.Leaving {
				out = append(out, p)
			}
		}
	}
	return out
}

// expire applies ttlSecondsAfterFinished. An aborted job may be resumed and stays.
func (m *machine) expire(p *Plan) {
	if m.spec.TTL == nil || !m.ended() || m.phase() == batch.Aborted {
		return
	}
	left := m.status.State.LastTransitionTime.Add(*m.spec.TTL).Sub(m.now)
	if left <= 0 {
		p.Expired = true
		return
	}
	p.Wake = sooner(p.Wake, left)
}

// Released lists the tasks whose pods may be created now. The gang that starts consists
// of these: tasks that depend on others would keep those from starting.
func Released(job *batch.Job, pods []Pod) map[string]bool {
	spec := SpecOf(job)
	m := machine{spec: &spec, status: job.Status, seen: Observed{Pods: pods}}
	m.survey()
	out := map[string]bool{}
	for i := range spec.Tasks {
		out[spec.Tasks[i].Name] = m.released(&spec.Tasks[i])
	}
	return out
}
