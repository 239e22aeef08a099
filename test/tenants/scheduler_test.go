package tenants

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// look is the latest of a pod, and why it waits.
func (w *world) look(t *testing.T, p *v1.Pod) (*v1.Pod, string) {
	t.Helper()
	latest, err := w.admin.client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return latest, waits(latest)
}

// TestQueueLists: a Queue's list of namespaces is kept by the scheduler, also where no policy
// is in force (kube-system is exempt): the pod is told, and starts when the list has its
// namespace. Queues below the one with the list inherit it.
func TestQueueLists(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	list := func(namespaces string) string {
		return fmt.Sprintf(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: listed, annotations: {tangram.dev/namespaces: %q}}, spec: {weight: 1}}`, namespaces)
	}
	apply(t, w, list("team-a"), `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: listed-child}, spec: {weight: 1, parent: listed}}`)
	const forbidden = `QueueForbidden: namespace "kube-system" may not use queue "listed"`
	p := w.admitted(t, w.admin, "kube-system", pod("unlisted", 1, label(names.LabelQueue, "listed-child")))
	job := object(`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: unlisted}, spec: {queue: listed-child, minAvailable: 1, tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: 1}}}]}}}]}}`)
	made, err := w.admin.create("kube-system", job)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(t, made)
	eventually(t, "the pod is told", func() (bool, string) {
		_, seen := w.look(t, p)
		return seen == forbidden, seen
	})
	status := func() string {
		o, err := w.admin.dynamic.Resource(resourceOf(job)).Namespace("kube-system").Get(t.Context(), "unlisted", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(o.Object["status"])
	}
	eventually(t, "the job is told", func() (bool, string) {
		seen := status()
		return strings.Contains(seen, `spec.queue: namespace "kube-system" may not use queue "listed"`), seen
	})
	apply(t, w, list("team-a, kube-system"))
	eventually(t, "the pod starts", func() (bool, string) {
		latest, seen := w.look(t, p)
		return latest.Spec.NodeName != "" && latest.Annotations[names.AnnotationCharged] == "listed-child", seen
	})
	eventually(t, "the job runs", func() (bool, string) {
		seen := status()
		return strings.Contains(seen, "phase:Running"), seen
	})
}

// TestGangsStayInTheirNamespace: gangs of one name in two namespaces are two gangs, and a
// pod cannot join a PodGroup of another namespace, whose queue it would use.
func TestGangsStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	ann, bob := w.as(t, "ann", "team-a"), w.as(t, "bob", "team-b")
	half := func(p *v1.Pod) { p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = "together", "2" }
	one := w.admitted(t, ann, "team-a", pod("half", 1, half))
	other := w.admitted(t, bob, "team-b", pod("half", 1, half))
	group, err := ann.create("team-a", workloads("theirs-alone", "team-a")["PodGroup"])
	if err != nil {
		t.Fatal(err)
	}
	w.keep(t, group)
	joins := map[string]*v1.Pod{}
	for _, name := range []string{"theirs-alone", "team-a/theirs-alone"} {
		for _, key := range []string{names.AnnotationKubeGroup, names.AnnotationVolcanoGroup} {
			joins[key+"="+name] = w.admitted(t, bob, "team-b", pod("join", 1, annotate(key, name)))
		}
	}
	for _, p := range []*v1.Pod{one, other} {
		eventually(t, "half a gang waits", func() (bool, string) {
			_, seen := w.look(t, p)
			return seen == "WaitingForMembers: waits for members: 1 of 2 exist", seen
		})
	}
	for what, p := range joins {
		eventually(t, what+" is told", func() (bool, string) {
			_, seen := w.look(t, p)
			return strings.Contains(seen, "does not exist"), seen
		})
	}
}
