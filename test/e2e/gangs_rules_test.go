package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// apart: members that Kubernetes' own rules keep off each other's nodes.
func apart(w *world) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	for name, rule := range map[string]func(*v1.Pod){
		"ports": func(p *v1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 2222, HostPort: 2222}}
		},
		"anti": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: app}},
			}}
		},
		"spread": func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
				{MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, TopologyKey: v1.LabelHostname, LabelSelector: app}}
		},
	} {
		w.createGang(name, 3, 1, labelled("app", "a"), rule)
		if nodes := w.gangNodes(name+"-", 3, 10*time.Second); len(nodes) != 3 {
			w.t.Errorf("%s: on %v", name, nodes)
		}
		for i := range 3 { // the rules of the next are about them, too
			w.gone(fmt.Sprintf("%s-%d", name, i))
		}
	}
}

// nextRun: a gang is deleted and made anew while its pods still take their time to go.
// None of the new ones starts before all can.
func nextRun(w *world) {
	w.createGang("full", 4, 8)
	w.createGang("run", 2, 8)
	w.gangNodes("full-", 4, 10*time.Second)
	w.gangNodes("run-", 2, 10*time.Second)
	for i := range 2 {
		w.terminate(fmt.Sprintf("run-%d", i))
		w.create(pod(fmt.Sprintf("next-%d", i), 8, gangLabels("run", 2)))
	}
	w.gone("full-0")
	w.waits("next-0", "waits for capacity: needs 2 members, 1 can be placed")
	w.noneBound("next-", time.Second)
	w.gone("run-0")
	w.gangNodes("next-", 2, 10*time.Second)
}

// terminate begins a pod's grace period; nobody here ends it.
func (w *world) terminate(name string) {
	w.t.Helper()
	grace := int64(600)
	if err := w.client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		w.t.Fatal(err)
	}
}

// badMember: a member whose wishes make no sense is told so, and its gang waits for it.
func badMember(w *world) {
	w.create(pod("bad-0", 1, gangLabels("bad", 2)))
	w.create(pod("bad-1", 1, gangLabels("bad", 2), annotated(names.AnnotationTopology, "nonsense")))
	w.waits("bad-1", "metadata.annotations["+names.AnnotationTopology+"]")
	w.event("Pod", "bad-0", "waits for members: 1 of 2 exist")
	w.annotate("bad-1", names.AnnotationTopology, "required=rack")
	w.gangNodes("bad-", 2, 10*time.Second)
}

func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := w.client.CoreV1().Pods("default").Patch(context.Background(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// noLongerShown: what waits for capacity is shown to autoscalers; when it waits for
// quota by now, no longer.
func noLongerShown(w *world) {
	reason := func() (bool, string) {
		for _, c := range w.get("c-0").Status.Conditions {
			if c.Type == v1.PodScheduled {
				return c.Reason == "WaitingForQuota", c.Reason + ": " + c.Message
			}
		}
		return false, "no condition"
	}
	w.queueOf("shrinking", "{weight: 1, capability: {nvidia.com/gpu: 16}}")
	w.createGang("full", 6, 8)
	w.gangNodes("full-", 6, 10*time.Second)
	w.createGang("c", 2, 4, inQueue("shrinking"))
	w.waits("c-0", "waits for capacity")
	if _, seen := reason(); seen[:len(v1.PodReasonUnschedulable)] != v1.PodReasonUnschedulable {
		w.t.Errorf("shown as %s", seen)
	}
	w.queueOf("shrinking", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	w.eventually("the pod is not shown as unschedulable", 25*time.Second, reason)
}

// bindingRefused: the Binding of one member is refused when the others' are under way,
// which cannot be taken back. Nobody else gets its place, and it is bound when that is
// possible.
func bindingRefused(w *world) {
	policy := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-binding}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}]}
  validations: [{expression: "!request.name.startsWith('refused')"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-binding}
spec: {policyName: no-binding, validationActions: [Deny]}
`
	w.apply(policy)
	allow := func() {
		if err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(context.Background(), "no-binding", metav1.DeleteOptions{}); err != nil {
			w.t.Error(err)
		}
	}
	w.eventually("bindings are refused", 20*time.Second, func() (bool, string) {
		err := w.client.CoreV1().Pods("default").Bind(context.Background(), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Target: v1.ObjectReference{Kind: "Node", Name: "a-0"}}, metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), "denied"), fmt.Sprint(err)
	})
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5, 10*time.Second)
	for i := range 8 {
		name := fmt.Sprintf("b-%d", i)
		if i == 3 {
			name = "refused-b"
		}
		w.create(pod(name, 1, gangLabels("b", 8)))
	}
	w.gangNodes("b-", 7, 10*time.Second)
	for i := range 3 {
		w.create(pod(fmt.Sprintf("single-%d", i), 1))
	}
	w.noneBound("single-", 3*time.Second) // longer than a gang rests
	allow()
	w.bound("refused-b")
	w.noneBound("single-", 0)
}
