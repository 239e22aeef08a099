package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
)

// submit creates pods, one after another, each answered before the next:
//
//	submit
//	train-[0-1] gpus=4 selector=accelerator=nvidia-tesla-a100
//	----
//	train-0 -> a100-0 [0 1 2 3]
//	train-1 -> a100-0 [4 5 6 7]
func (s *story) submit(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := lines(d)
	if err != nil {
		return nil, err
	}
	var given []string
	for _, l := range list {
		for _, name := range l.names {
			if err := s.create(ctx, l, name); err != nil {
				return nil, fmt.Errorf("pod %s: %w", name, err)
			}
			given = append(given, name)
			if _, err := await(ctx, s.engine, func(state *State) bool {
				return state.Pods[name] != nil && answered(state.Pods[name])
			}); err != nil {
				return nil, err
			}
		}
	}
	return s.changes(given...), nil
}

// create makes one pod of a line.
func (s *story) create(ctx context.Context, l *line, name string) error {
	pod, class, err := l.pod(name)
	if err == nil {
		err = s.enter(pod)
	}
	if err != nil {
		return err
	}
	if class != nil {
		if err := s.engine.Apply(ctx, class); err != nil {
			return err
		}
	}
	return s.engine.Apply(ctx, pod)
}

// enter gives a pod its identity.
func (s *story) enter(pod *v1.Pod) error {
	if s.shown[pod.Name] != "" {
		return errors.New("there is one of that name")
	}
	s.created++
	pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.Name, s.created))
	pod.CreationTimestamp = metav1.NewTime(s.engine.Now())
	if !slices.Contains(s.order, pod.Name) {
		s.order = append(s.order, pod.Name)
	}
	delete(s.planted, pod.Name)
	return nil
}

// foreign creates pods that another scheduler bound: node= says where. With record=
// they carry that text as their record. age=1h makes one older than all pods
// Tangram placed; otherwise it is younger.
func (s *story) foreign(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := lines(d)
	if err != nil {
		return nil, err
	}
	var given []string
	for _, l := range list {
		for _, name := range l.names {
			node, text := l.text("node", ""), l.text("record", "")
			age, ageErr := time.ParseDuration(l.text("age", "-1h"))
			pod, _, err := l.pod(name)
			if err = errors.Join(err, ageErr); err == nil {
				err = s.enter(pod)
			}
			if err != nil {
				return nil, fmt.Errorf("pod %s: %w", name, err)
			}
			if node == "" || (text != "") != (d.Cmd == "record") {
				return nil, fmt.Errorf("pod %s: foreign needs node=, record needs node= and record=", name)
			}
			s.planted[name] = true
			given = append(given, name)
			s.bind(pod, node, age)
			if text != "" {
				pod.Annotations[names.AnnotationDevices] = text
			}
			if err := s.engine.Apply(ctx, pod); err != nil {
				return nil, err
			}
		}
	}
	return s.changes(given...), nil
}

// bind makes a pod look as if it had been running for some time.
func (s *story) bind(pod *v1.Pod, node string, age time.Duration) {
	since := metav1.NewTime(s.engine.Now().Add(-age).Add(time.Duration(s.created) * time.Second))
	pod.Spec.NodeName = node
	pod.Spec.SchedulerName = "another-scheduler"
	pod.Status.Phase = v1.PodRunning
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: since}}
}

// existing returns the pods a verb names.
func (s *story) existing(ctx context.Context, d *datadriven.TestData) ([]*v1.Pod, []string, error) {
	list, err := arguments(d)
	if err != nil {
		return nil, nil, err
	}
	if err := s.alone(ctx, len(list)); err != nil {
		return nil, nil, err
	}
	state, err := s.engine.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	var pods []*v1.Pod
	for _, name := range list {
		if state.Pods[name] == nil {
			return nil, nil, fmt.Errorf("there is no pod %s", name)
		}
		pods = append(pods, state.Pods[name])
	}
	return pods, list, nil
}

// delete removes pods at once.
func (s *story) deletePods(ctx context.Context, d *datadriven.TestData) (view, error) {
	pods, list, err := s.existing(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if err := s.engine.Delete(ctx, pod); err != nil {
			return nil, err
		}
	}
	return s.changesBut(list), nil
}

// run says that pods' containers run, as their kubelets would. Disruption budgets do not
// protect a pod before.
func (s *story) runPods(ctx context.Context, d *datadriven.TestData) (view, error) {
	pods, _, err := s.existing(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		pod.Status.Phase = v1.PodRunning
		if err := s.engine.Apply(ctx, pod); err != nil {
			return nil, err
		}
	}
	return s.changes(), nil
}

// finish ends pods with success; the objects stay.
func (s *story) finishPods(ctx context.Context, d *datadriven.TestData) (view, error) {
	pods, list, err := s.existing(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		pod.Status.Phase = v1.PodSucceeded
		if err := s.engine.Apply(ctx, pod); err != nil {
			return nil, err
		}
	}
	return s.changesBut(list), nil
}

// terminate asks pods to end; they hold their devices until they have.
func (s *story) terminatePods(ctx context.Context, d *datadriven.TestData) (view, error) {
	pods, list, err := s.existing(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if waits(pod) {
			return nil, fmt.Errorf("pod %s is not bound: an API server deletes it at once, so say delete", pod.Name)
		}
		now := metav1.NewTime(s.engine.Now())
		pod.DeletionTimestamp = &now
		if err := s.engine.Apply(ctx, pod); err != nil {
			return nil, err
		}
	}
	return s.changes(list...), nil
}
