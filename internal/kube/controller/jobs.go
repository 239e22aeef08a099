package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// jobs carries out the plans of lifecycle.
type jobs struct {
	*loop
	clients  *clients
	sources  *sources
	recorder events.EventRecorder
	// written holds a job as last written until the informer has caught up: a decision
	// on an older status could create pods of an earlier version.
	written cache.MutationCache
	objects *objects
	trouble *trouble
	unseen  *unseenPods
	now     func() time.Time
}

func newJobs(c *clients, s *sources, r events.EventRecorder) (*jobs, error) {
	j := &jobs{
		loop: newLoop("jobs", 20*time.Millisecond, c.timing), clients: c, sources: s, recorder: r, now: time.Now,
		written: cache.NewIntegerResourceVersionMutationCache(klog.Background(), s.jobs.GetStore(), s.jobs.GetIndexer(), time.Minute, false),
		objects: newObjects(c.kube), trouble: newTrouble(), unseen: newUnseenPods(),
	}
	j.reconcile = j.sync
	return j, errors.Join(
		on(s.jobs, func(_, job *batch.Job) { j.enqueue(keyOf(job)) }),
		on(s.pods, func(_, p *v1.Pod) { j.enqueue(jobKey(p)) }),
		on(s.podGroups, func(before, g *scheduling.PodGroup) {
			if before == nil || before.Status.Phase != g.Status.Phase || before.Generation != g.Generation {
				j.enqueue(jobKey(g))
			}
		}),
		on(s.commands, func(_, c *bus.Command) {
			if t := c.TargetObject; t != nil && t.Kind == "Job" {
				j.enqueue(c.Namespace + "/" + t.Name)
			}
		}),
		s.onQueues(j.queueChanged))
}

// queueChanged enqueues the jobs that a queue's change may hold back or let go on.
func (j *jobs) queueChanged(before, q *scheduling.Queue) {
	names := []string{q.Name, parentOf(q)} // a queue with child queues accepts no jobs
	if before != nil {
		if !maps.Equal(before.Annotations, q.Annotations) { // its list of namespaces holds below it, too
			for _, job := range every[*batch.Job](j.sources.jobs) {
				j.enqueue(keyOf(job))
			}
			return
		}
		if before.Status.State == q.Status.State && before.Spec.Parent == q.Spec.Parent {
			return
		}
		names = append(names, parentOf(before))
	}
	for _, name := range names {
		for _, job := range find[*batch.Job](j.sources.jobs, byQueue, name) {
			j.enqueue(keyOf(job))
		}
	}
}

func (j *jobs) sync(ctx context.Context, key string) (time.Duration, error) {
	obj, ok, err := j.written.GetByKey(key)
	if err != nil || !ok {
		j.trouble.forget(key)
		j.unseen.forget(key)
		return 0, cmp.Or(err, j.dropCommands(ctx, key))
	}
	job := obj.(*batch.Job)
	if job.DeletionTimestamp != nil {
		return 0, nil // its objects are garbage-collected with it
	}
	pods, err := j.podsOf(ctx, job)
	if err != nil {
		return 0, err
	}
	spec := lifecycle.SpecOf(job)
	plugins, fault := j.check(job, &spec)
	command := j.sources.command("Job/" + key)
	seen := lifecycle.Observed{Pods: pods, Fault: fault, Hold: j.hold(spec.Queue, job.Namespace), Trouble: cmp.Or(j.trouble.of(key), j.unplaced(job))}
	seen.Unknown, seen.UnknownSince = j.unknown(job)
	if command != nil {
		seen.Command = &lifecycle.Command{UID: command.UID, Action: bus.Action(command.Action)}
	}
	plan := lifecycle.Decide(job, seen, j.now())
	if plan.Expired {
		return 0, j.expire(ctx, job)
	}
	if job, err = j.writeStatus(ctx, job, plan.Status); err != nil {
		return 0, err
	}
	if command != nil { // recorded in the status, so it is not applied twice even if the delete fails
		err := j.clients.commands(command.Namespace).Delete(ctx, command.Name, metav1.DeleteOptions{})
		return time.Millisecond, unlessGone(err) // there may be further commands
	}
	if err := j.ensureGroup(ctx, job, &spec, plan); err != nil {
		return 0, err
	}
	if err := j.deletePods(ctx, job, plan.Delete); err != nil {
		return 0, err
	}
	slots, wake := j.unseen.left(job, plan.Create, j.now())
	if len(slots) > podsPerReconcile {
		slots, wake = slots[:podsPerReconcile], time.Millisecond
	}
	if len(slots) > 0 || plan.Group && !lifecycle.Final(job.Status.State.Phase) {
		if err := j.objects.ensure(ctx, job, plugins, len(slots) > 0); err != nil {
			return 0, j.failed(ctx, job, err)
		}
	}
	if err := j.createPods(ctx, job, &spec, plugins, slots); err != nil {
		return 0, j.failed(ctx, job, err)
	}
	j.trouble.forget(key)
	if wake == 0 || plan.Wake > 0 && plan.Wake < wake {
		wake = plan.Wake
	}
	return wake, nil
}

// failed records that an object of the job could not be created.
func (j *jobs) failed(ctx context.Context, job *batch.Job, err error) error {
	if ctx.Err() == nil {
		j.recorder.Eventf(job, nil, v1.EventTypeWarning, failedCreate, "Create", "%s", err)
		j.trouble.note(keyOf(job), err, j.now())
	}
	return err
}

// podsOf are the pods the job controls. If some have disappeared, the API server is
// asked as well, because the informer may be behind and a lost pod triggers policies.
func (j *jobs) podsOf(ctx context.Context, job *batch.Job) ([]lifecycle.Pod, error) {
	pods := j.sources.podsOf(job)
	if !lifecycle.SomeLost(job, pods) {
		return pods, nil
	}
	list, err := j.clients.kube.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{batch.JobNameKey: job.Name}.String(),
	})
	if err != nil {
		return nil, err
	}
	pods = nil
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			pods = append(pods, lifecycle.PodOf(&list.Items[i]))
		}
	}
	return pods, nil
}

// check finds problems in the spec that the API server cannot see.
func (j *jobs) check(job *batch.Job, spec *lifecycle.Spec) ([]blueprint.Plugin, *lifecycle.Problem) {
	if why := job.Annotations[annotationUnreadable]; why != "" {
		return nil, &lifecycle.Problem{Reason: "InvalidSpec", Message: why}
	}
	if err := spec.Validate(); err != nil {
		return nil, &lifecycle.Problem{Reason: "InvalidSpec", Message: err.Error()}
	}
	plugins, err := blueprint.Plugins(job, spec)
	if err != nil {
		return nil, &lifecycle.Problem{Reason: "InvalidPlugin", Message: err.Error()}
	}
	return plugins, nil
}

// hold says why no pod may be created for a namespace's jobs in a queue, or nil.
func (j *jobs) hold(queue, namespace string) *lifecycle.Problem {
	q, ok := j.sources.queue(queue)
	all := tree{}
	for at := q; at != nil && all[at.Name] == nil; at, _ = j.sources.queue(parentOf(at)) {
		all[at.Name] = at
	}
	refused := all.refuses(queue, namespace)
	switch {
	case !ok:
		return &lifecycle.Problem{Reason: unknownQueue, Message: unknownQueueMessage(queue)}
	case refused != "":
		return &lifecycle.Problem{Reason: "QueueForbidden", Message: fmt.Sprintf("spec.queue: namespace %q may not use queue %q", namespace, refused)}
	case closed(q):
		return &lifecycle.Problem{Reason: "QueueClosed", Message: fmt.Sprintf("spec.queue: queue %q is closed", queue)}
	case q.Status.State == scheduling.QueueStateUnknown:
		return &lifecycle.Problem{Reason: "QueueInvalid", Message: fmt.Sprintf("spec.queue: queue %q has no place among the queues (its spec.parent)", queue)}
	case j.sources.hasChildren(queue):
		return &lifecycle.Problem{Reason: "QueueHasQueues", Message: fmt.Sprintf("spec.queue: queue %q takes no jobs, only the queues below it do", queue)}
	}
	return nil
}

// unplaced says why pods of the job are unschedulable, or nil.
func (j *jobs) unplaced(job *batch.Job) *lifecycle.Problem {
	if why := whyUnschedulable(find[*v1.Pod](j.sources.pods, byOwner, ownedBy(job))); why != "" {
		return &lifecycle.Problem{Reason: v1.PodReasonUnschedulable, Message: why}
	}
	return nil
}

// unknown says whether the job's group runs in part only, and since when.
func (j *jobs) unknown(job *batch.Job) (bool, time.Time) {
	key := job.Namespace + "/" + blueprint.GroupName(job)
	g, ok := get[*scheduling.PodGroup](j.sources.podGroups, key)
	if !ok || g.Status.Phase != scheduling.PodGroupUnknown {
		return false, time.Time{}
	}
	var since time.Time
	for _, p := range find[*v1.Pod](j.sources.pods, byGroup, key) {
		if at, ok := unschedulableSince(p); ok && at.After(since) {
			since = at
		}
	}
	return true, since
}

// dropCommands deletes commands for a job that does not exist, so that they do not
// apply to a later job of the same name. The API server is asked, because a command may
// arrive before its job.
func (j *jobs) dropCommands(ctx context.Context, key string) error {
	for _, c := range find[*bus.Command](j.sources.commands, byTarget, "Job/"+key) {
		_, err := j.clients.jobs(c.Namespace).Get(ctx, c.TargetObject.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if err := unlessGone(j.clients.commands(c.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the decision before it is carried out.
func (j *jobs) writeStatus(ctx context.Context, job *batch.Job, status batch.JobStatus) (*batch.Job, error) {
	if equality.Semantic.DeepEqual(job.Status, status) {
		return job, nil
	}
	next := job.DeepCopy()
	next.Status = status
	out, err := j.clients.jobs(job.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	j.written.Mutation(out)
	if was, is := job.Status.State, status.State; was.Phase != is.Phase || was.Reason != is.Reason && is.Reason != "" && is.Reason != failedCreate {
		j.recordPhase(out)
	}
	return out, nil
}

// recordPhase records an event for the job's new phase, or for the reason it has not
// changed.
func (j *jobs) recordPhase(job *batch.Job) {
	st, kind := job.Status.State, v1.EventTypeNormal
	if st.Message != "" && st.Phase != batch.Completed && st.Phase != batch.Completing {
		kind = v1.EventTypeWarning
	}
	note := fmt.Sprintf("job is %s", st.Phase)
	if st.Message != "" {
		note += ": " + st.Message
	}
	j.recorder.Eventf(job, nil, kind, cmp.Or(st.Reason, string(st.Phase)), "Sync", "%s", note)
}

func (j *jobs) expire(ctx context.Context, job *batch.Job) error {
	policy := metav1.DeletePropagationBackground
	return unlessGone(j.clients.jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &job.UID},
	}))
}
