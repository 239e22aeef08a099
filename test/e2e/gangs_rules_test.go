package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
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
		w.createGang(name, 3, 1, cluster.Label("app", "a"), rule)
		if nodes := w.gangNodes(name+"-", 3); len(nodes) != 3 {
			w.T.Errorf("%s: on %v", name, nodes)
		}
		for i := range 3 { // the rules of the next are about them, too
			w.Delete(fmt.Sprintf("%s-%d", name, i))
		}
	}
}

// nextRun: a gang is deleted and made anew while its pods still take their time to go.
// None of the new ones starts before all can.
func nextRun(w *world) {
	w.createGang("full", 4, 8)
	w.createGang("run", 2, 8)
	w.gangNodes("full-", 4)
	w.gangNodes("run-", 2)
	for i := range 2 {
		w.terminate(fmt.Sprintf("run-%d", i))
		w.Create(pod(fmt.Sprintf("next-%d", i), 8, cluster.Gang("run", 2)))
	}
	w.Delete("full-0")
	w.Waits("next-0", "waits for capacity: needs 2 members, 1 can be placed")
	w.noneBound("next-", time.Second)
	w.Delete("run-0")
	w.gangNodes("next-", 2)
}

// terminate begins a pod's grace period, which no kubelet ends.
func (w *world) terminate(name string) {
	w.T.Helper()
	grace := int64(600)
	w.Must(w.Client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// badMember: a member with an invalid annotation is told so, and its gang waits for it.
func badMember(w *world) {
	w.Create(pod("bad-0", 1, cluster.Gang("bad", 2)))
	w.Create(pod("bad-1", 1, cluster.Gang("bad", 2), cluster.Annotate(names.AnnotationTopology, "nonsense")))
	w.Waits("bad-1", "metadata.annotations["+names.AnnotationTopology+"]")
	w.Event("Pod", "bad-0", "waits for members: 1 of 2 exist")
	w.annotate("bad-1", names.AnnotationTopology, "required=rack")
	w.gangNodes("bad-", 2)
}

func (w *world) annotate(name, key, value string) {
	w.T.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	w.Patch(cluster.Pods, name, string(patch))
}

// noLongerShown: what waits for capacity is shown to autoscalers; when it waits for
// quota by now, no longer.
func noLongerShown(w *world) {
	reason := func() (bool, string) {
		for _, c := range w.Get("c-0").Status.Conditions {
			if c.Type == v1.PodScheduled {
				return c.Reason == "WaitingForQuota", c.Reason + ": " + c.Message
			}
		}
		return false, "no condition"
	}
	w.AddQueue("shrinking", "{weight: 1, capability: {nvidia.com/gpu: 16}}")
	w.createGang("full", 6, 8)
	w.gangNodes("full-", 6)
	w.createGang("c", 2, 4, cluster.Queue("shrinking"))
	w.Waits("c-0", "waits for capacity")
	if _, seen := reason(); seen[:len(v1.PodReasonUnschedulable)] != v1.PodReasonUnschedulable {
		w.T.Errorf("shown as %s", seen)
	}
	w.AddQueue("shrinking", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	w.Eventually("the pod is not shown as unschedulable", reason)
}

// bindingRefused: the Binding of one member is refused when the others' are under way,
// which cannot be taken back. No other pod gets its place, and it is bound when that is
// possible.
func bindingRefused(w *world) {
	denied := cluster.Bindings("no-binding", "!request.name.startsWith('refused')")
	w.Deny(denied)
	w.Eventually("bindings are refused", func() (bool, string) {
		err := w.Bind("refused", "a-0", nil)
		return err != nil && strings.Contains(err.Error(), "denied"), fmt.Sprint(err)
	})
	w.createGang("full", 5, 8)
	w.gangNodes("full-", 5)
	for i := range 8 {
		name := fmt.Sprintf("b-%d", i)
		if i == 3 {
			name = "refused-b"
		}
		w.Create(pod(name, 1, cluster.Gang("b", 8)))
	}
	w.gangNodes("b-", 7)
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("single-%d", i), 1))
	}
	w.noneBound("single-", 3*time.Second) // longer than a gang rests
	w.Admit(denied)
	w.Placed("refused-b")
	w.noneBound("single-", 0)
}
