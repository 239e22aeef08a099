package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// nonPreemptible is the priority from which KAI's workloads are not preempted, unless they
// say otherwise.
const nonPreemptible = 100

// kaiGroups are the PodGroups that a pod of KAI names by annotation. The word has no prefix,
// so it counts only in pods that were written for KAI.
var kaiGroups = OwnerKind{
	Kind: "PodGroup", Resource: KAIGroups, group: true, field: annotation(kaiGroupName), size: groupSize,
	find: func(pod *v1.Pod) (Owned, bool) {
		name := pod.Annotations[kaiGroupName]
		if name == "" || !speaksKAI(pod) {
			return Owned{}, false
		}
		return Owned{Name: name, Gang: "kai/" + pod.Namespace + "/" + name}, true
	},
}

// kai reads KAI's words about a pod's gang, of a pod that was written for KAI.
func (m *Membership) kai(pod *v1.Pod) error {
	if !speaksKAI(pod) {
		return nil
	}
	if err := checkKAI(pod.Annotations); err != nil {
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
	preemptible, said, err := preemptibility(pod.Labels[kaiPreemptibility], label(kaiPreemptibility))
	switch {
	case err != nil:
		return err
	case said:
		m.Preemptible = preemptible
	case slices.Contains(names.KAISchedulerNames, pod.Spec.SchedulerName):
		m.PreemptBelow = nonPreemptible
	}
	return nil
}

// Adopt adds what the object that owns a pod says in KAI's words, where the pod itself says
// nothing: KAI reads them from the workload that people submit. scheduler is the pod's. An
// error names the field.
func (m *Membership) Adopt(owner *unstructured.Unstructured, scheduler string, levels topology.Levels) error {
	labels, annotations := owner.GetLabels(), owner.GetAnnotations()
	like := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: v1.PodSpec{SchedulerName: scheduler}}
	if !speaksKAI(like) {
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

// preemptibility reads KAI's word for whether others may take a workload's place; not said
// when it is empty.
func preemptibility(word, field string) (preemptible, said bool, err error) {
	switch strings.ToLower(word) {
	case "":
		return false, false, nil
	case "preemptible":
		return true, true, nil
	case "non-preemptible":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%s: %q is not supported; it may be preemptible or non-preemptible", field, word)
}

// kaiGroup reads a PodGroup of scheduling.run.ai.
func kaiGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	var err error
	spec := reader{o.Object, &err}
	g := Group{Min: 1, Queue: spec.text("spec", "queue"), Priority: spec.text("spec", "priorityClassName")}
	if n, ok := spec.number("spec", "minMember"); ok {
		g.Min = int(max(1, min(n, maxGang)))
	}
	if n, ok := spec.number("spec", "minSubGroup"); ok {
		g.MinGroups = int(max(0, min(n, maxGang)))
	}
	preemptible, said, problem := preemptibility(spec.text("spec", "preemptibility"), "spec.preemptibility")
	if problem != nil && err == nil {
		err = problem
	}
	if said {
		g.Preemptible = &preemptible
	}
	if text := spec.text("spec", "preemptionDelay"); text != "" {
		d, problem := time.ParseDuration(text)
		if problem != nil || d < 0 {
			spec.note(fmt.Errorf("%q is not a duration like 5m", text), []string{"spec", "preemptionDelay"})
		}
		g.PreemptionDelay = d
	}
	g.Require, g.Prefer = spec.kaiTopology(levels, "spec", "topologyConstraint")
	if long := fewer(o, gang.MaxSubgroups, "subGroups"); long != nil {
		return g, long
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "subGroups")
	for i, entry := range list {
		object, _ := entry.(map[string]any)
		sub := reader{map[string]any{"spec": map[string]any{fmt.Sprintf("subGroups[%d]", i): object}}, &err}
		at := func(field string) []string { return []string{"spec", fmt.Sprintf("subGroups[%d]", i), field} }
		s := Subgroup{Name: sub.text(at("name")...), Parent: sub.text(at("parent")...)}
		if n, ok := sub.number(at("minMember")...); ok {
			s.Min = int(max(0, min(n, maxGang+1)))
		}
		if n, ok := sub.number(at("minSubGroup")...); ok {
			s.MinGroups = int(max(0, min(n, maxGang)))
		}
		s.Require, s.Prefer = sub.kaiTopology(levels, at("topologyConstraint")...)
		g.Subgroups = append(g.Subgroups, s)
	}
	g.defaultSubgroupMinimums()
	if err == nil {
		err = g.CheckSubgroups(map[string]string{"": "spec.subGroups", "name": "name", "parent": "parent", "min": "minMember", "minGroups": "minSubGroup"})
	}
	return g, err
}

// defaultSubgroupMinimums: a leaf without minMember needs one member, as in KAI.
func (g *Group) defaultSubgroupMinimums() {
	inner := map[string]bool{}
	for _, s := range g.Subgroups {
		inner[s.Parent] = true
	}
	for i := range g.Subgroups {
		if s := &g.Subgroups[i]; s.Min == 0 && !inner[s.Name] {
			s.Min = 1
		}
	}
}

// kaiSize is how many pods of a Job or JobSet start together by KAI's annotation, which
// goes before what the object itself says; of a Job not more than are left to run.
func kaiSize(o *unstructured.Unstructured, kind schema.GroupVersionResource) (int, bool) {
	n, err := minMember(o.GetAnnotations())
	if err != nil || n == 0 || kind != Jobs && kind != JobSets {
		return 0, false
	}
	if kind == Jobs {
		var bad error
		job := reader{o.Object, &bad}
		left := int64(job.parallelism("spec"))
		if completions, ok := job.number("spec", "completions"); ok {
			done, _ := job.number("status", "succeeded")
			left = min(left, max(0, completions-done))
		}
		n = min(n, int(left))
	}
	return n, true
}

// minMember reads KAI's annotation for the number of pods that start together; 0 without.
func minMember(annotations map[string]string) (int, error) {
	text, ok := annotations[kaiMinMember]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxGang {
		return 0, fmt.Errorf("%s: %q is not a number from 1 to %d", annotation(kaiMinMember), text, maxGang)
	}
	return n, nil
}
