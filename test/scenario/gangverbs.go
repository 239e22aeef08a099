package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
)

// argumentLine reads the key=value arguments behind a verb's first word as a line, so that
// they are checked in the same way.
func argumentLine(d *datadriven.TestData) (*line, error) {
	if len(d.CmdArgs) == 0 || len(d.CmdArgs[0].Vals) > 0 {
		return nil, errors.New("needs a name behind it")
	}
	l := &line{names: []string{d.CmdArgs[0].Key}, read: map[string]bool{}}
	for _, arg := range d.CmdArgs[1:] {
		l.fields = append(l.fields, field{arg.Key, strings.Join(arg.Vals, ",")})
	}
	return l, nil
}

// gang creates the pods of a gang at once:
//
//	gang train size=2
//	train-[0-1] gpus=4
//	----
//	train-0 -> a100-0 [0 1 2 3]
//	train-1 -> a100-0 [4 5 6 7]
//
// size= labels the pods with the gang's name and size. min= makes a PodGroup instead,
// with min-task=worker:2 for roles, and creates it when the scheduler has seen the pods:
// a gang that may start with fewer members must not depend on which of them came first.
func (s *story) gang(ctx context.Context, d *datadriven.TestData) (view, error) {
	header, err := argumentLine(d)
	if err != nil {
		return nil, err
	}
	list, err := lines(d)
	if err != nil {
		return nil, err
	}
	name := header.names[0]
	size, least, queue := header.text("size", ""), header.number("min", 0), header.text("queue", "")
	group := groupObject(name, least, queue, header.all("min-task"), header)
	if err := header.done(); err != nil {
		return nil, err
	}
	if (size == "") == (least == 0) {
		return nil, errors.New("a gang has either size= or min=")
	}
	var given []string
	for _, l := range list {
		for _, key := range []field{{"gang", name}, {"size", size}, {"queue", queue}} {
			if size != "" && key.value != "" && !slices.ContainsFunc(l.fields, func(f field) bool { return f.key == key.key }) {
				l.fields = append(l.fields, key)
			}
		}
		if size == "" {
			l.fields = append(l.fields, field{"annotation", names.AnnotationKubeGroup + "=" + name})
		}
		for _, pod := range l.names {
			if err := s.create(ctx, l, pod); err != nil {
				return nil, fmt.Errorf("pod %s: %w", pod, err)
			}
			given = append(given, pod)
		}
	}
	if size == "" {
		if err := s.caughtUp(ctx); err != nil {
			return nil, err
		}
		group.SetCreationTimestamp(metav1.NewTime(s.engine.Now()))
		if err := s.engine.Apply(ctx, group); err != nil {
			return nil, err
		}
	}
	_, err = await(ctx, s.engine, func(state *State) bool {
		return !slices.ContainsFunc(given, func(name string) bool { return state.Pods[name] == nil || !answered(state.Pods[name]) })
	})
	return s.changes(given...), err
}

// groupObject is a Volcano PodGroup.
func groupObject(name string, least int, queue string, tasks []string, l *line) *unstructured.Unstructured {
	spec := map[string]any{"minMember": int64(least)}
	if queue != "" {
		spec["queue"] = queue
	}
	if len(tasks) > 0 {
		minimums := map[string]any{}
		for _, t := range tasks {
			task, number, _ := strings.Cut(t, ":")
			n, err := strconv.Atoi(number)
			if err != nil {
				l.fail("min-task: %q is not task:number", t)
			}
			minimums[task] = int64(n)
		}
		spec["minTaskMember"] = minimums
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kindPodGroup,
		"metadata": map[string]any{"name": name, "namespace": metav1.NamespaceDefault}, "spec": spec,
	}}
}

// queue adds queues, or replaces those of the same name:
//
//	queue
//	team-a weight=2 capability=nvidia.com/gpu:8
//	----
//	ok
func (s *story) queue(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := lines(d)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		for _, name := range l.names {
			q := l.queue(name)
			if err := l.done(); err != nil {
				return nil, fmt.Errorf("queue %s: %w", name, err)
			}
			s.queues[name] = q
			if err := s.engine.Apply(ctx, q); err != nil {
				return nil, err
			}
		}
	}
	return s.changes(), s.queuesSeen(ctx)
}

// queue makes a Volcano Queue.
func (l *line) queue(name string) *unstructured.Unstructured {
	spec := map[string]any{}
	for _, key := range []string{"weight", "priority"} {
		if n := l.text(key, ""); n != "" {
			number, err := strconv.ParseInt(n, 10, 32)
			if err != nil {
				l.fail("%s: %q is not a number", key, n)
			}
			spec[key] = number
		}
	}
	if parent := l.text("parent", ""); parent != "" {
		spec["parent"] = parent
	}
	if !l.yes("reclaimable", true) {
		spec["reclaimable"] = false
	}
	amounts := func(key string) map[string]any {
		out := map[string]any{}
		for _, value := range l.all(key) {
			resource, amount, _ := strings.Cut(value, ":")
			l.quantity(key, amount)
			out[resource] = amount
		}
		return out
	}
	for _, key := range []string{"capability", "deserved"} {
		if a := amounts(key); len(a) > 0 {
			spec[key] = a
		}
	}
	if a := amounts("guarantee"); len(a) > 0 {
		spec["guarantee"] = map[string]any{"resource": a}
	}
	annotations := map[string]string{}
	for _, key := range []string{"order", "aging"} {
		if value := l.text(key, ""); value != "" {
			annotations[names.Group+"/"+key] = value
		}
	}
	q := queueObject(name, spec, annotations)
	if state := l.text("state", "Open"); state != "" {
		q.Object["status"] = map[string]any{"state": state}
	}
	return q
}

// remove-queue takes queues away.
func (s *story) removeQueue(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := arguments(d)
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		if s.queues[name] == nil {
			return nil, fmt.Errorf("there is no queue %s", name)
		}
		if err := s.engine.Delete(ctx, s.queues[name]); err != nil {
			return nil, err
		}
		delete(s.queues, name)
	}
	return s.changes(), s.queuesSeen(ctx)
}

// quota sets what a namespace may use, or takes that away: quota dev nvidia.com/gpu=2.
func (s *story) quota(ctx context.Context, d *datadriven.TestData) (view, error) {
	if len(d.CmdArgs) == 0 {
		return nil, errors.New("needs a namespace")
	}
	var amounts []string
	for _, arg := range d.CmdArgs[1:] {
		amounts = append(amounts, arg.Key+"="+strings.Join(arg.Vals, ","))
	}
	if err := s.engine.Apply(ctx, namespaceObject(d.CmdArgs[0].Key, strings.Join(amounts, ", "))); err != nil {
		return nil, err
	}
	return s.changes(), s.quotasSeen(ctx)
}

// budget adds disruption budgets, or replaces those of the same name: budget web
// allowed=0 label=app=web.
func (s *story) budget(ctx context.Context, d *datadriven.TestData) (view, error) {
	l, err := argumentLine(d)
	if err != nil {
		return nil, err
	}
	b := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: l.names[0], Namespace: metav1.NamespaceDefault},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: l.pairs("label")}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(l.number("allowed", 0))},
	}
	if err := l.done(); err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Apply(ctx, b)
}

// relabel sets labels of a pod, or takes them away: relabel p-0 tangram.dev/queue=b old-.
func (s *story) relabel(ctx context.Context, d *datadriven.TestData) (view, error) {
	if len(d.CmdArgs) < 2 {
		return nil, errors.New("needs a pod, and changes")
	}
	state, err := s.engine.Observe(ctx)
	if err != nil {
		return nil, err
	}
	name := d.CmdArgs[0].Key
	pod := state.Pods[name]
	if pod == nil {
		return nil, fmt.Errorf("there is no pod %s", name)
	}
	pod.Labels = maps.Clone(pod.Labels)
	for _, arg := range d.CmdArgs[1:] {
		if gone, ok := strings.CutSuffix(arg.Key, "-"); ok && len(arg.Vals) == 0 {
			delete(pod.Labels, gone)
		} else {
			pod.Labels[arg.Key] = strings.Join(arg.Vals, ",")
		}
	}
	return s.changes(), errors.Join(s.engine.Apply(ctx, pod), s.caughtUp(ctx))
}

// tick lets time pass: tick 30s.
func (s *story) tick(ctx context.Context, d *datadriven.TestData) (view, error) {
	if len(d.CmdArgs) != 1 {
		return nil, errors.New("needs a duration")
	}
	t, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Tick(ctx, t)
}

// membership reads what a pod says of its gang and queue.
func (l *line) membership(pod *v1.Pod) {
	for _, f := range []struct {
		key string
		to  map[string]string
		as  string
	}{
		{"queue", pod.Labels, names.LabelQueue}, {"gang", pod.Labels, names.LabelGang}, {"size", pod.Labels, names.LabelGangSize},
		{"task", pod.Annotations, names.AnnotationVolcanoTask}, {"group", pod.Annotations, names.AnnotationKubeGroup},
		{"runtime", pod.Annotations, names.AnnotationRuntime}, {"min-runtime", pod.Annotations, names.AnnotationMinRuntime},
	} {
		if value := l.text(f.key, ""); value != "" {
			f.to[f.as] = value
		}
	}
	if !l.yes("preemptible", true) {
		pod.Annotations[names.AnnotationPreemptible] = "false"
	}
	if grace := l.text("grace", ""); grace != "" {
		t, err := time.ParseDuration(grace)
		if err != nil {
			l.fail("grace: %q is not a duration", grace)
		}
		seconds := int64(t / time.Second)
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	if label := l.text("apart", ""); label != "" {
		key, value, _ := strings.Cut(label, "=")
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &v1.Affinity{}
		}
		pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}, TopologyKey: v1.LabelHostname,
		}}}
	}
}
