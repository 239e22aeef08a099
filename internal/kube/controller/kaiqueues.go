package controller

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// kaiQueue is a KAI Queue as a Volcano one, as far as PodGroups and Jobs are asked to wait
// for it. It is always open. One that cannot be read has no limit here: the scheduler, which
// does not start pods in it, says on it what is wrong.
func kaiQueue(obj any) (any, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is not a KAI Queue", obj)
	}
	q, err := dialect.KAIQueueOf(o)
	out := &scheduling.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(), Annotations: o.GetAnnotations()},
		Spec:       scheduling.QueueSpec{Parent: q.Parent},
		Status:     scheduling.QueueStatus{State: scheduling.QueueStateOpen},
	}
	if err == nil {
		out.Spec.Capability = dialect.Quantities(q.Capability)
	}
	return out, nil
}

// queue is the queue with a name: Volcano's, or KAI's if there is none of Volcano's with the
// name.
func (s *sources) queue(name string) (*scheduling.Queue, bool) {
	if q, ok := get[*scheduling.Queue](s.queues, name); ok {
		return q, true
	}
	return get[*scheduling.Queue](s.kaiQueues, name)
}

// tree is all queues; volcano those of them that are Volcano's own.
func (s *sources) tree() (all, volcano tree) {
	all, volcano = tree{}, tree{}
	for _, q := range every[*scheduling.Queue](s.kaiQueues) {
		all[q.Name] = q
	}
	for _, q := range every[*scheduling.Queue](s.queues) {
		all[q.Name], volcano[q.Name] = q, q
	}
	return all, volcano
}

// hasChildren says whether there are queues below a queue.
func (s *sources) hasChildren(name string) bool {
	if len(find[*scheduling.Queue](s.queues, byParent, name)) > 0 {
		return true
	}
	for _, q := range find[*scheduling.Queue](s.kaiQueues, byParent, name) {
		if _, hidden := get[*scheduling.Queue](s.queues, q.Name); !hidden {
			return true
		}
	}
	return false
}

// onQueues calls notice with every queue that was added, updated or deleted.
func (s *sources) onQueues(notice func(before, now *scheduling.Queue)) error {
	return errors.Join(on(s.queues, notice), on(s.kaiQueues, notice))
}
