package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// Observed is what a decision is based on besides the job itself.
type Observed struct {
	Pods []Pod // all that the job owns
	// Unknown: some pods of the group run and others cannot be scheduled, since then.
	Unknown      bool
	UnknownSince time.Time
	Hold         *Problem // why no pod may be created for now, or nil
	Trouble      *Problem // why pods could not be created or scheduled at the last attempt, or nil
	Fault        *Problem // why the job can never run, or nil
	Command      *Command // a command from a bus.Command object, or nil
}

// Problem is a CamelCase reason and a message that names the field.
type Problem struct{ Reason, Message string }

// Command is a user's command, carried out once.
type Command struct {
	UID    types.UID
	Action bus.Action
}

// Plan is what to do. The status must be written before anything else is done.
type Plan struct {
	Status  batch.JobStatus
	Create  []Slot
	Delete  []Pod
	Group   bool          // the job takes part in scheduling, as a PodGroup
	Wake    time.Duration // after which time to decide again without an event; 0 for never
	Expired bool          // the job is past its TTL and is to be deleted
}

// machine is one decision under way.
type machine struct {
	spec   *Spec
	before batch.JobStatus // as it was read
	status batch.JobStatus // as it will be
	seen   Observed
	now    time.Time

	current map[string][]Pod // by task, in the order of indexes: those that count
	surplus []Pod            // stale, or beyond the replicas
	taken   map[Slot]bool    // slots whose pod name is in use
	wake    time.Duration
}

// Decide returns the job's next status and the pods to create and delete. It does not
// change its arguments.
func Decide(job *batch.Job, seen Observed, now time.Time) Plan {
	spec := SpecOf(job)
	m := &machine{spec: &spec, before: job.Status, status: *job.Status.DeepCopy(), seen: seen, now: now}
	m.survey()
	m.step()
	m.survey()
	m.count()
	return m.plan()
}

// step makes at most one transition, except for the first one and the end of a restart,
// which have no status of their own.
func (m *machine) step() {
	if m.phase() == "" {
		m.move(batch.Pending, "", "")
	}
	if m.seen.Fault != nil && !m.ended() {
		m.move(batch.Failed, m.seen.Fault.Reason, m.seen.Fault.Message)
		return
	}
	if m.applyCommand() {
		return
	}
	switch m.phase() {
	case batch.Restarting:
		if len(m.surplus) > 0 {
			return
		}
		m.move(batch.Pending, m.status.State.Reason, m.status.State.Message)
		m.run()
	case batch.Pending, batch.Running:
		m.run()
	case batch.Completing, batch.Aborting, batch.Terminating:
		if m.active() == 0 {
			m.move(map[batch.JobPhase]batch.JobPhase{
				batch.Completing: batch.Completed, batch.Aborting: batch.Aborted, batch.Terminating: batch.Terminated,
			}[m.phase()], m.status.State.Reason, m.status.State.Message)
		}
	}
}

func (m *machine) applyCommand() bool {
	c := m.seen.Command
	if c == nil || m.status.ControlledResources[lastCommand] == string(c.UID) {
		return false
	}
	setNote(&m.status, lastCommand, string(c.UID))
	const cause = "by command"
	switch {
	case m.phase() == batch.Aborted && c.Action == bus.ResumeJobAction:
		raise(&m.status, []target{{}})
		m.move(batch.Restarting, string(c.Action), cause)
	case m.ended() || c.Action == bus.ResumeJobAction:
		return false // no command applies any more
	case c.Action == bus.RestartJobAction:
		raise(&m.status, []target{{}})
		m.move(batch.Restarting, string(c.Action), cause)
	default:
		return m.perform(reaction{action: c.Action, cause: cause})
	}
	return true
}

// run handles a job that is neither restarting nor terminating.
func (m *machine) run() {
	r, wake := m.react()
	if m.perform(r) {
		return
	}
	m.wake = wake
	if m.finish() {
		return
	}
	m.count()
	st := &m.status
	up := st.Running + st.Succeeded
	switch {
	case m.phase() == batch.Pending && up >= st.MinAvailable && up > 0:
		m.move(batch.Running, "", "")
	case m.phase() == batch.Running && up+st.Failed < st.MinAvailable:
		m.move(batch.Pending, "", "")
	}
	if m.phase() == batch.Pending {
		m.explain()
	}
}

// explain sets the reason why a job does not start, and clears it when it does.
func (m *machine) explain() {
	state, none := &m.status.State, len(m.current) == 0
	switch {
	case none && m.seen.Hold != nil:
		state.Reason, state.Message = m.seen.Hold.Reason, m.seen.Hold.Message
	case m.seen.Trouble != nil:
		state.Reason, state.Message = m.seen.Trouble.Reason, m.seen.Trouble.Message
	case severity(bus.Action(state.Reason)) < 0 && state.Reason != string(bus.ResumeJobAction): // not why it was restarted
		state.Reason, state.Message = "", ""
	}
}

// perform carries out the action of a policy or a command; false if there is none.
func (m *machine) perform(r reaction) bool {
	switch r.action {
	case bus.AbortJobAction:
		m.move(batch.Aborting, string(r.action), r.cause)
	case bus.TerminateJobAction:
		m.move(batch.Terminating, string(r.action), r.cause)
	case bus.CompleteJobAction:
		m.move(batch.Completing, string(r.action), r.cause)
	case bus.RestartJobAction, bus.RestartTaskAction, bus.RestartPartitionAction, bus.RestartPodAction:
		if r.disrupted {
			m.restartEvicted(r)
			return true
		}
		if m.status.RetryCount >= m.spec.MaxRetry {
			m.move(batch.Failed, "RetriesExhausted", fmt.Sprintf("restarted %d times (spec.maxRetry), then %s", m.status.RetryCount, r.cause))
			return true
		}
		m.status.RetryCount++
		raise(&m.status, r.targets)
		m.move(batch.Restarting, string(r.action), r.cause)
	default:
		return false
	}
	return true
}

// restartEvicted restarts evicted pods. An eviction is not a failure of the job: it is
// counted separately and never uses up maxRetry.
func (m *machine) restartEvicted(r reaction) {
	n := note(&m.status, evictions) + 1
	setNote(&m.status, evictions, strconv.Itoa(int(n)))
	raise(&m.status, r.targets)
	m.move(batch.Restarting, string(r.action), fmt.Sprintf("%s (restart %d after evictions, which spec.maxRetry does not count)", r.cause, n))
}

// finish ends a job when its pods, or enough of them, have ended.
func (m *machine) finish() bool {
	m.count()
	st, total := &m.status, m.spec.Replicas()
	ended := st.Succeeded + st.Failed
	switch {
	case m.spec.MinSuccess > 0 && st.Succeeded >= m.spec.MinSuccess:
		m.move(batch.Completing, "MinSuccess", fmt.Sprintf("%d pods succeeded (spec.minSuccess)", st.Succeeded))
	case total > 0 && ended == total:
		if why := m.shortfall(); why != "" {
			m.move(batch.Failed, "TooFewSucceeded", why)
		} else {
			m.move(batch.Completed, "", "")
		}
	case m.stuck():
		m.move(batch.Failed, "DependencyFailed", "spec.tasks: what the remaining tasks depend on has ended without them")
	default:
		return false
	}
	return true
}

// shortfall says which minimum a job has missed, once all of its pods have ended; empty if
// none.
func (m *machine) shortfall() string {
	if m.spec.MinSuccess > 0 {
		return fmt.Sprintf("%d pods succeeded, spec.minSuccess is %d", m.status.Succeeded, m.spec.MinSuccess)
	}
	for i, t := range m.spec.Tasks {
		if n := m.status.TaskStatusCount[t.Name].Phase[v1.PodSucceeded]; t.HasMin && n < t.Min {
			return fmt.Sprintf("%d pods of task %s succeeded, spec.tasks[%d].minAvailable is %d", n, t.Name, i, t.Min)
		}
	}
	if m.status.Succeeded < m.spec.MinAvailable {
		return fmt.Sprintf("%d pods succeeded, minAvailable is %d", m.status.Succeeded, m.spec.MinAvailable)
	}
	return ""
}

// stuck: all pods that may exist have ended, and the remaining tasks depend on them.
func (m *machine) stuck() bool {
	waiting := false
	for i := range m.spec.Tasks {
		t := &m.spec.Tasks[i]
		if !m.released(t) {
			waiting = true
			continue
		}
		pods := m.current[t.Name]
		if len(pods) < int(t.Replicas) {
			return false
		}
		if slices.ContainsFunc(pods, func(p Pod) bool { return !p.Ended() }) {
			return false
		}
	}
	return waiting
}

// released says whether a task's pods may be created: the tasks it depends on are up,
// or it has already begun.
func (m *machine) released(t *Task) bool {
	if t.DependsOn == nil || len(t.DependsOn.Name) == 0 || len(m.current[t.Name]) > 0 {
		return true
	}
	up := 0
	for _, name := range t.DependsOn.Name {
		other := m.spec.Task(name)
		if other == nil {
			continue // the API server has checked the names
		}
		var n int32
		for _, p := range m.current[name] {
			if !p.Leaving && (p.Phase == v1.PodRunning || p.Phase == v1.PodSucceeded) {
				n++
			}
		}
		if n >= other.Min {
			up++
		}
	}
	if t.DependsOn.Iteration == batch.IterationAny {
		return up > 0
	}
	return up == len(t.DependsOn.Name)
}

func (m *machine) phase() batch.JobPhase { return m.status.State.Phase }

// active is how many pods of the job still run or may run.
func (m *machine) active() int {
	n := 0
	for i := range m.seen.Pods {
		if !m.seen.Pods[i].Ended() {
			n++
		}
	}
	return n
}

// ended says whether the job is in a phase that only a command can leave.
func (m *machine) ended() bool { return Final(m.phase()) }

// Final says whether a job stays in a phase unless there is a command.
func Final(p batch.JobPhase) bool {
	return p == batch.Completed || p == batch.Failed || p == batch.Terminated || p == batch.Aborted
}

const conditionsKept = 32 // bounds the history of phases

func (m *machine) move(to batch.JobPhase, reason, message string) {
	now := metav1.NewTime(m.now.Truncate(time.Second)) // as the API server keeps it
	st := &m.status
	st.State = batch.JobState{Phase: to, Reason: reason, Message: message, LastTransitionTime: now}
	st.Conditions = append(st.Conditions, batch.JobCondition{Status: to, LastTransitionTime: &now})
	st.Conditions = st.Conditions[max(0, len(st.Conditions)-conditionsKept):]
	if !Final(to) {
		st.RunningDuration = nil
		return
	}
	for i := len(st.Conditions) - 1; i >= 0; i-- {
		if c := st.Conditions[i]; c.Status == batch.Running && c.LastTransitionTime != nil {
			st.RunningDuration = &metav1.Duration{Duration: now.Sub(c.LastTransitionTime.Time)}
			return
		}
	}
}
