package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/topology"
)

// KAIGroups are KAI's PodGroups.
var KAIGroups = schema.GroupVersionResource{Group: "scheduling.run.ai", Version: "v2alpha2", Resource: "podgroups"}

// KAI's words for gangs and priorities, on pods and on the objects that own them.
const (
	kaiGroupName       = "pod-group-name" // annotation of a pod
	kaiMinMember       = "kai.scheduler/batch-min-member"
	kaiPreemptibility  = "kai.scheduler/preemptibility"
	kaiPreemptionDelay = "kai.scheduler/preemption-delay"
	kaiPriorityClass   = "priorityClassName" // a label
)

// KAISubgroup is the label by which a pod names its subgroup.
const KAISubgroup = "kai.scheduler/subgroup-name"

// nonPreemptible is the priority from which KAI's workloads are not preempted, unless they say otherwise.
const nonPreemptible = 100

// kaiGroups are the PodGroups that a pod of KAI names by annotation. The word has no prefix,
// so it counts only in pods that were written for KAI.
var kaiGroups = OwnerKind{
	Kind: "PodGroup", Resource: KAIGroups, group: true, field: annotation(kaiGroupName), size: groupSize,
	find: func(pod *v1.Pod) (Owned, bool) {
		name := pod.Annotations[kaiGroupName]
		return Owned{Name: name, Gang: "kai/" + pod.Namespace + "/" + name}, name != "" && SpeaksKAI(pod)
	},
}

// kai reads KAI's words about a pod's gang, of a pod that was written for KAI.
func (m *Membership) kai(pod *v1.Pod) error {
	if !SpeaksKAI(pod) {
		return nil
	}
	if err := refuse(pod.Annotations, kaiSegmentSize, kaiSegmentTopology); err != nil {
		return err
	}
	if _, err := minMember(pod.Annotations); err != nil {
		return err
	}
	m.Subgroup = cmp.Or(pod.Labels[KAISubgroup], m.Subgroup)
	m.PriorityClass = pod.Labels[kaiPriorityClass]
	var err error
	if m.PreemptionDelay, err = duration(pod, kaiPreemptionDelay); err != nil {
		return err
	}
	preemptible, said, err := preemptibility(pod.Labels[kaiPreemptibility])
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", label(kaiPreemptibility), err)
	case said:
		m.Preemptible = preemptible
	case slices.Contains(names.KAISchedulerNames, pod.Spec.SchedulerName):
		m.PreemptBelow = nonPreemptible
	}
	return nil
}

// Adopt adds what the object that owns a pod says in KAI's words, where the pod says nothing: KAI
// reads them from the workload. scheduler is the pod's. An error names the field.
func (m *Membership) Adopt(owner *unstructured.Unstructured, scheduler string, levels topology.Levels) error {
	labels, annotations := owner.GetLabels(), owner.GetAnnotations()
	like := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: v1.PodSpec{SchedulerName: scheduler}}
	if !SpeaksKAI(like) {
		return nil
	}
	var said Membership
	if err := said.kai(like); err != nil {
		return err
	}
	m.Queue = cmp.Or(m.Queue, kaiQueue(labels, scheduler))
	m.PriorityClass = cmp.Or(m.PriorityClass, said.PriorityClass)
	m.PreemptionDelay = cmp.Or(m.PreemptionDelay, said.PreemptionDelay)
	if labels[kaiPreemptibility] != "" && m.PreemptBelow > 0 {
		m.Preemptible, m.PreemptBelow = said.Preemptible, 0
	}
	var err error
	m.Require, m.Prefer, err = kaiPlacement(annotations, levels)
	return err
}

// preemptibility reads KAI's word for whether a workload may be preempted; not said when it is empty.
func preemptibility(word string) (preemptible, said bool, err error) {
	switch strings.ToLower(word) {
	case "":
		return false, false, nil
	case "preemptible":
		return true, true, nil
	case "non-preemptible":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%q is not supported; it may be preemptible or non-preemptible", word)
}

// kaiGroup reads a PodGroup of scheduling.run.ai.
func kaiGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	spec := readerOf(o).in("spec")
	g := Group{
		Min: spec.count("minMember", 1, 1), MinGroups: spec.count("minSubGroup", 0, 0),
		Queue: spec.text("queue"), Priority: spec.text("priorityClassName"), PreemptionDelay: spec.duration("preemptionDelay"),
	}
	preemptible, said, problem := preemptibility(spec.text("preemptibility"))
	spec.note(problem, "preemptibility")
	if said {
		g.Preemptible = &preemptible
	}
	g.Require, g.Prefer = spec.kaiTopology(levels)
	for _, sub := range spec.listOf("subGroups", gang.MaxSubgroups) {
		s := Subgroup{Name: sub.text("name"), Parent: sub.text("parent"), MinGroups: sub.count("minSubGroup", 0, 0)}
		if n, ok := sub.number("minMember"); ok {
			s.Min = int(max(0, min(n, maxGang+1)))
		}
		s.Require, s.Prefer = sub.kaiTopology(levels)
		g.Subgroups = append(g.Subgroups, s)
	}
	leaves := g.leaves()
	for i, s := range g.Subgroups { // a leaf without minMember needs one member, as in KAI
		if s.Min == 0 && slices.Contains(leaves, s.Name) {
			g.Subgroups[i].Min = 1
		}
	}
	if spec.err() != nil {
		return g, spec.err()
	}
	return g, g.CheckSubgroups(map[string]string{"": "spec.subGroups", "name": "name", "parent": "parent", "min": "minMember", "minGroups": "minSubGroup"})
}

// kaiSize is how many pods of a Job or JobSet start together by KAI's annotation, which
// goes before what the object itself says; of a Job not more than are left to run.
func kaiSize(o *unstructured.Unstructured, kind schema.GroupVersionResource) (int, bool) {
	n, err := minMember(o.GetAnnotations())
	if err != nil || n == 0 || kind != Jobs && kind != JobSets {
		return 0, false
	}
	if kind == Jobs {
		job := readerOf(o)
		left := int64(job.in("spec").parallelism())
		if completions, ok := job.number("spec.completions"); ok {
			done, _ := job.number("status.succeeded")
			left = min(left, max(0, completions-done))
		}
		n = min(n, int(left))
	}
	return n, true
}

// minMember reads KAI's annotation for the number of pods that start together; 0 without.
func minMember(annotations map[string]string) (int, error) {
	return numberIn(annotations, kaiMinMember, annotation(kaiMinMember), maxGang)
}
