package e2e

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/local"
)

// TestPodGroups: PodGroups say which pods belong together, where and how urgent they
// are: Volcano's, and Kubernetes' own where the API server has them.
func TestPodGroups(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{KWOK: true, APIServer: []string{
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true",
	}}, `
pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`)
	w.scheduler(nil)
	kubeGroup := func(name, spec string) {
		w.apply(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: %s}", name, spec))
	}
	inGroup := func(group string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
	}

	kubeGroup("pair", "{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}}")
	w.create(pod("pair-0", 8, inGroup("pair")))
	w.event("Pod", "pair-0", "waits for members: 1 of 2 exist")
	w.create(pod("blocker", 8)) // whoever comes alone passes
	w.bound("blocker")
	w.create(pod("pair-1", 8, inGroup("pair")))
	if nodes := w.gangNodes("pair-", 2, 20*time.Second); nodes["n-0"] != nodes["n-1"] || nodes["n-2"] != nodes["n-3"] {
		t.Errorf("a gang that must be in one rack is on %v", nodes)
	}
	kubeGroup("bag", "{schedulingPolicy: {basic: {}}}")
	w.create(pod("bag-0", 1, inGroup("bag")))
	w.bound("bag-0")
	w.create(pod("stray", 1, inGroup("nobody")))
	w.waits("stray", "spec.schedulingGroup.podGroupName: PodGroup", "default/nobody", "does not exist")
	kubeGroup("row", "{schedulingPolicy: {gang: {minCount: 1}}, schedulingConstraints: {topology: [{key: example.com/row}]}}")
	w.create(pod("row-0", 1, inGroup("row")))
	w.waits("row-0", "PodGroup default/row: spec.schedulingConstraints.topology.key", "example.com/row")

	// A PodGroup's class counts for its pods, which name none.
	for _, p := range w.pods() {
		w.gone(p.Name)
	}
	w.priorityClass("background", -10, "")
	w.priorityClass("urgent", 1000, "")
	volcanoGroup := func(name, spec string) {
		w.apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: %s}", name, spec))
	}
	volcanoGroup("low", "{minMember: 4, priorityClassName: background}")
	volcanoGroup("high", "{minMember: 4, priorityClassName: urgent}")
	fill := func(group string) {
		for i := range 4 {
			w.create(pod(fmt.Sprintf("%s-%d", group, i), 8, annotated(names.AnnotationKubeGroup, group)))
		}
	}
	fill("low")
	w.gangNodes("low-", 4, 20*time.Second)
	w.create(pod("plain", 8)) // of priority 0, more than -10
	w.eventually("a plain pod takes the place of the background gang", 20*time.Second, func() (bool, string) { return w.left("low-") == 0, "" })
	w.bound("plain")
	fill("high")
	w.gangNodes("high-", 4, 20*time.Second)
}
