package dialect

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
)

// NamedQueue is the queue that a pod names: Tangram's label, else Volcano's annotation on plain pods
// or on those of a Job, else KAI's label, else Koordinator's; empty without one.
func NamedQueue(pod *v1.Pod) string {
	return cmp.Or(
		pod.Labels[names.LabelQueue], pod.Annotations[names.AnnotationVolcanoQueue], pod.Annotations[names.AnnotationVolcanoJobQueue],
		kaiQueue(pod.Labels, pod.Spec.SchedulerName), pod.Labels[names.LabelKoordQuota])
}

// kaiQueue is the queue that labels of a pod, or of its owner, name in KAI's words. The old
// label project counts for KAI's schedulers only: others use the word for other things.
func kaiQueue(labels map[string]string, scheduler string) string {
	queue := cmp.Or(labels[names.LabelKAIQueue], labels[names.LabelRunaiQueue])
	if queue == "" && slices.Contains(names.KAISchedulerNames, scheduler) {
		queue = labels[names.LabelRunaiProject]
	}
	return queue
}

// QueueOrDefault is the queue of a Volcano Job or a PodGroup, given its spec.queue.
func QueueOrDefault(queue string) string { return cmp.Or(queue, arbiter.Default) }

// PodQueue is the queue that a pod is charged to: once it is bound that of its Binding; before that
// groupQueue, which is spec.queue of its PodGroup, else the one it names, else the default queue.
func PodQueue(pod *v1.Pod, groupQueue string) string {
	if charged, ok := ChargedQueue(pod); ok && pod.Spec.NodeName != "" {
		return charged
	}
	return cmp.Or(groupQueue, NamedQueue(pod), arbiter.Default)
}

// Charged says whether a pod is charged to a queue, whichever scheduler places it: it
// is if it names a queue, belongs to a gang or asks for devices.
func Charged(pod *v1.Pod) bool {
	if m, _ := MembershipOf(pod); m.Queue != "" || m.PodGroup != "" || pod.Labels[names.LabelGang] != "" {
		return true
	}
	r, _, err := counts(pod)
	return r != nil || err != nil
}

// Member is one pod of a gang, with what all members of a gang must agree on.
type Member struct {
	// Pod is the pod's namespace/name.
	Pod string
	Membership
	// Require is the level of domains that the pod requires its gang to share; zero without one.
	Require  model.Level
	Priority int32
}

// Contradiction is an error when two members of a gang contradict each other, with field, values and
// pods. What the gang's PodGroup states (group, nil without one) overrides the members' fields.
func Contradiction(a, b Member, group *Group) error {
	if group == nil {
		group = &Group{}
	}
	differ := func(field, x, y string) error {
		return fmt.Errorf("members of one gang contradict each other: %s: %s of pod %s, %s of pod %s", field, x, a.Pod, y, b.Pod)
	}
	queue := func(m *Member) string { return fmt.Sprintf("%q", QueueOrDefault(m.Queue)) }
	switch {
	case group.Queue == "" && queue(&a) != queue(&b):
		return differ(label(names.LabelQueue), queue(&a), queue(&b))
	case a.Size != b.Size && a.Size > 0 && b.Size > 0:
		field := label(names.LabelGangSize)
		if a.ofKueue() {
			field = annotation(annotationKueueTotal)
		}
		return differ(field, fmt.Sprint(a.Size), fmt.Sprint(b.Size))
	case a.GangGroups != b.GangGroups:
		return differ(annotation(names.AnnotationGangGroups), fmt.Sprintf("%q", a.GangGroups), fmt.Sprintf("%q", b.GangGroups))
	case group.Require.Name == "" && a.Require != b.Require && a.Require.Name != "" && b.Require.Name != "":
		return differ(annotation(names.AnnotationTopology), "required="+a.Require.Name, "required="+b.Require.Name)
	case group.Priority == "" && a.Priority != b.Priority:
		return differ("spec.priority", fmt.Sprint(a.Priority), fmt.Sprint(b.Priority))
	}
	return nil
}
