package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// allQueues is the only key of the loop: queues depend on each other, and one walk over
// the pods serves all.
const allQueues = "all"

// queues maintains the status of Queues, and creates the two that must exist.
type queues struct {
	*loop
	clients  *clients
	sources  *sources
	recorder events.EventRecorder
	charges  *charges
	entrance *entrance
	reported map[string]string // the problem last reported of each queue, so that each is reported once
}

func newQueues(c *clients, s *sources, r events.EventRecorder, e *entrance) (*queues, error) {
	// Half a second: the numbers are for users, and every pod event changes them.
	q := &queues{loop: newLoop("queues", 500*time.Millisecond, c.timing), clients: c, sources: s, recorder: r, reported: map[string]string{}, entrance: e,
		charges: newCharges(s.nodes.GetStore(), s.gpuNodes.GetStore())}
	q.reconcile = q.sync
	q.queue.Add(allQueues) // creates the default queues on an empty cluster
	enqueueIf := func(yes bool) {
		if yes {
			q.enqueue(allQueues)
		}
	}
	return q, errors.Join(
		s.onQueues(func(_, _ *scheduling.Queue) { enqueueIf(true) }),
		on(s.podGroups, func(_, _ *scheduling.PodGroup) { enqueueIf(true) }),
		on(s.commands, func(_, c *bus.Command) { enqueueIf(c.TargetObject != nil && c.TargetObject.Kind == "Queue") }),
		// A GPUNode that arrives late changes which part of a device pods hold.
		on(s.gpuNodes, func(before, n *v1alpha1.GPUNode) { enqueueIf(before == nil || before.Generation != n.Generation) }),
		on(s.pods, func(before, p *v1.Pod) {
			enqueueIf(before == nil || before.Spec.NodeName != p.Spec.NodeName || before.Status.Phase != p.Status.Phase)
		}))
}

// sync writes the status of every queue that has changed.
func (q *queues) sync(ctx context.Context, _ string) (time.Duration, error) {
	all, volcano := q.sources.tree()
	if err := q.ensure(ctx, volcano); err != nil {
		return 0, err
	}
	status, own := all.status(every[*scheduling.PodGroup](q.sources.podGroups), every[*v1.Pod](q.sources.pods), q.charges)
	q.entrance.changed(all, own)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(volcano)) {
		errs = append(errs, q.write(ctx, all, all[name], status[name]))
	}
	return 0, errors.Join(errs...)
}

// ensure creates the root and the default queue. Their events enqueue the loop's key
// again.
func (q *queues) ensure(ctx context.Context, all tree) error {
	yes, no := true, false
	for name, reclaimable := range map[string]*bool{rootQueue: &no, lifecycle.DefaultQueue: &yes} {
		if all[name] != nil {
			continue
		}
		_, err := q.clients.queues("").Create(ctx, &scheduling.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       scheduling.QueueSpec{Weight: 1, Reclaimable: reclaimable},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func (q *queues) write(ctx context.Context, all tree, queue *scheduling.Queue, want *scheduling.QueueStatus) error {
	command := q.sources.command("Queue/" + queue.Name)
	if command != nil {
		switch {
		case bus.Action(command.Action) == bus.OpenQueueAction:
			want.State = scheduling.QueueStateOpen
		case bus.Action(command.Action) == bus.CloseQueueAction && want.State != scheduling.QueueStateClosed:
			want.State = scheduling.QueueStateClosing // closed once it is empty
		}
	}
	q.reportProblem(all, queue)
	if !equality.Semantic.DeepEqual(queue.Status, *want) {
		next := queue.DeepCopy()
		next.Status = *want
		if _, err := q.clients.queues("").UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return unlessGone(err)
		}
	}
	if command == nil {
		return nil
	}
	return unlessGone(q.clients.commands(command.Namespace).Delete(ctx, command.Name, metav1.DeleteOptions{}))
}

// reportProblem records an event about a queue's invalid position in the tree. Each
// kind of problem has a reason of its own, because later events of the same reason are
// aggregated.
func (q *queues) reportProblem(all tree, queue *scheduling.Queue) {
	reason, problem := all.problem(queue.Name)
	if problem != "" && q.reported[queue.Name] != problem {
		q.recorder.Eventf(queue, nil, v1.EventTypeWarning, reason, "Sync", "%s", problem)
	}
	q.reported[queue.Name] = problem
	if problem == "" {
		delete(q.reported, queue.Name)
	}
}
