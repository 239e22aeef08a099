package dialect

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// Membership is the gang that a pod belongs to, as its labels, PodGroup and owner say.
type Membership struct {
	// Key names the gang in the cluster; empty for a pod that belongs to none.
	Key string
	// PodGroup is the "namespace/name" of the pod's PodGroup, and Groups its kind; may be empty.
	PodGroup string
	Groups   schema.GroupVersionResource
	// Owner is the controller that determines the number of members; may be empty.
	Owner metav1.OwnerReference
	// Object is the PodGroup or the controller, of a kind of Owners; zero without one.
	Object Object
	// Also is the controller of a PodGroup's or labelled pods, where it knows more of their number; zero without one.
	Also Object
	// Size is the number of members that the pod itself speaks of; 0 when it does not.
	Size int
	// Leader: it is one of the first pods of its gang (Owned).
	Leader bool
	// Task is the member's role in the gang.
	Task string
	// Subgroup is the leaf of Group.Subgroups that the pod is in; empty without one.
	// GangGroups are the subgroups of a gang without PodGroup, as its pods name them.
	Subgroup, GangGroups string
	Queue                string
	User                 string

	Runtime, MinRuntime time.Duration
	Preemptible         bool

	// PriorityClass is the one that a label names for the gang, empty without one;
	// PreemptionDelay how long the gang waits before others are evicted for it.
	PriorityClass   string
	PreemptionDelay time.Duration
	// PreemptBelow is the priority from which the gang is not preempted; 0: none is.
	PreemptBelow int32
	// Require and Prefer are levels that the pod's owner names for the gang; the pod's own count before.
	Require, Prefer model.Level
	// TaskMin is how many members of the pod's own task the gang needs, and Tasks all its
	// tasks, comma-separated, where the pods say so; else 0 and empty.
	TaskMin int
	Tasks   string
}

// maxGang bounds a gang's size: a larger number is taken for a typing error.
const maxGang = 100_000

// MembershipOf reads the gang of a pod: Tangram's labels, else the PodGroup it names, else
// Koordinator's annotations, else Kueue's pod group, else its controller, of a kind in Owners. An
// error names the field.
func MembershipOf(pod *v1.Pod) (Membership, error) {
	words := pod.Annotations
	m := Membership{Task: words[names.AnnotationVolcanoTask], Queue: NamedQueue(pod), User: words[names.AnnotationUser], Preemptible: true}
	var err error
	if m.Size, err = numberIn(pod.Labels, names.LabelGangSize, label(names.LabelGangSize), maxGang); err != nil {
		return m, err
	}
	if err := m.join(pod); err != nil {
		return m, err
	}
	if err := m.subgroup(pod); err != nil {
		return m, err
	}
	if m.Runtime, err = duration(pod, names.AnnotationRuntime); err != nil {
		return m, err
	}
	if m.MinRuntime, err = duration(pod, names.AnnotationMinRuntime); err != nil {
		return m, err
	}
	for _, key := range []string{names.AnnotationPreemptible, names.AnnotationVolcanoPreemptable} {
		text, ok := pod.Annotations[key]
		if !ok {
			continue
		}
		if m.Preemptible, err = strconv.ParseBool(text); err != nil {
			return m, fmt.Errorf("%s: %q is not true or false", annotation(key), text)
		}
		break
	}
	return m, m.kai(pod)
}

// join finds the gang of a pod after its labels were read.
func (m *Membership) join(pod *v1.Pod) error {
	owner := metav1.GetControllerOf(pod)
	switch name := pod.Labels[names.LabelGang]; {
	case name != "" && m.Size == 0 && pod.Labels[names.LabelGangGroup] == "" && pod.Annotations[names.AnnotationGangGroups] == "":
		return fmt.Errorf("%s: missing, how many members gang %q has", label(names.LabelGangSize), name)
	case name != "":
		m.Key = "label/" + pod.Namespace + "/" + name
		m.beside(pod, labelledKinds, func(*OwnerKind) bool { return true })
	case m.follow(pod, podGroupKinds):
		m.beside(pod, controllerKinds, func(k *OwnerKind) bool { return k.ahead || k.bounds })
	case isKoordGang(pod):
		return m.koordGang(pod)
	case m.Size == 0 && pod.Labels[labelKueueGroup] != "":
		var err error
		if m.Key, m.Size, err = kueueGroup(pod); err != nil || m.Key != "" {
			return err
		}
		m.follow(pod, controllerKinds)
	case m.Size > 0 && owner != nil:
		m.Key = ownerGang(pod, owner)
		m.beside(pod, labelledKinds, func(*OwnerKind) bool { return true })
	case m.Size > 0 && pod.Labels[names.LabelJobID] != "":
		m.Key = jobIDGang(pod)
	case m.Size > 1:
		return fmt.Errorf("%s: %d, but neither %s nor a controller says which pods belong together", label(names.LabelGangSize), m.Size, names.LabelGang)
	case m.follow(pod, controllerKinds):
	case pod.Labels[names.LabelJobID] != "" && pod.Spec.SchedulerName == names.CustomSchedulerName:
		return fmt.Errorf("%s: missing, how many pods of %s=%s start together", label(names.LabelGangSize), names.LabelJobID, pod.Labels[names.LabelJobID])
	}
	if k := kindOf(cmp.Or(m.Also, m.Object).Resource); k.members != nil {
		var err error
		m.Size, err = k.members(pod)
		return err
	}
	return nil
}

// jobIDGang names the gang of requirement document 002's barrier.
func jobIDGang(pod *v1.Pod) string {
	return "job-id/" + pod.Namespace + "/" + pod.Labels[names.LabelJobID]
}

// beside notes the controller of a pod whose gang is known, if it is of one of the kinds.
func (m *Membership) beside(pod *v1.Pod, kinds []OwnerKind, counts func(*OwnerKind) bool) {
	for i := range kinds {
		k := &kinds[i]
		if found, ok := k.find(pod); ok && counts(k) {
			m.Also, m.Leader = Object{k.Resource, pod.Namespace + "/" + found.Name}, found.Leader
			return
		}
	}
}

// follow takes the gang from the first of the kinds that the pod belongs to.
func (m *Membership) follow(pod *v1.Pod, kinds []OwnerKind) bool {
	for i := range kinds {
		k := &kinds[i]
		found, ok := k.find(pod)
		if !ok {
			continue
		}
		m.Key, m.Object, m.Leader = found.Gang, Object{k.Resource, pod.Namespace + "/" + found.Name}, found.Leader
		if found.Task != "" || !k.group {
			m.Task = found.Task
		}
		m.Subgroup = found.Subgroup
		if k.group {
			m.PodGroup, m.Groups = m.Object.Key, k.Resource
		} else {
			m.Owner = found.Reference
		}
		return true
	}
	return false
}

// SharedLabel is a label that all members of a pod's gang have, and perhaps others; empty when none is known.
func SharedLabel(pod *v1.Pod) (key, value string) {
	m, err := MembershipOf(pod)
	owner := metav1.GetControllerOf(pod)
	switch {
	case err != nil:
	case pod.Labels[names.LabelGang] != "":
		key = names.LabelGang
	case m.Key == jobIDGang(pod):
		key = names.LabelJobID
	case m.PodGroup != "" && owner != nil && owner.Kind == "Job":
		key = labelVolcanoJob
	case m.ofKueue():
		key = labelKueueGroup
	default:
		key = kindOf(m.Object.Resource).Label
	}
	if value = pod.Labels[key]; value == "" {
		return "", ""
	}
	return key, value
}

// wholeNumber reads a number of text that a pod carries; field is where.
func wholeNumber(text, field string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s: %q is not a number from 1 to %d", field, text, most)
	}
	return n, nil
}

// numberIn is wholeNumber for a word that may be missing: 0.
func numberIn(words map[string]string, key, field string, most int) (int, error) {
	if text, ok := words[key]; ok {
		return wholeNumber(text, field, most)
	}
	return 0, nil
}

func duration(pod *v1.Pod, key string) (time.Duration, error) {
	text, ok := pod.Annotations[key]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: %q is not a duration like 90m or 12h", annotation(key), text)
	}
	return d, nil
}

// ChargedQueue is the queue that was charged for a bound pod, by its Binding; false when not recorded.
func ChargedQueue(pod *v1.Pod) (string, bool) {
	queue, ok := pod.Annotations[names.AnnotationCharged]
	return queue, ok
}
