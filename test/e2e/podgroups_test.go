package e2e

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
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
	w.Scheduler(nil)
	kubeGroup := func(name, spec string) {
		w.Apply(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: %s}", name, spec))
	}
	inGroup := func(group string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
	}

	kubeGroup("pair", "{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}}")
	w.Create(pod("pair-0", 8, inGroup("pair")))
	w.Event("Pod", "pair-0", "waits for members: 1 of 2 exist")
	w.Create(pod("blocker", 8)) // a single pod passes
	w.Placed("blocker")
	w.Create(pod("pair-1", 8, inGroup("pair")))
	if nodes := w.gangNodes("pair-", 2); nodes["n-0"] != nodes["n-1"] || nodes["n-2"] != nodes["n-3"] {
		t.Errorf("a gang that must be in one rack is on %v", nodes)
	}
	kubeGroup("bag", "{schedulingPolicy: {basic: {}}}")
	w.Create(pod("bag-0", 1, inGroup("bag")))
	w.Placed("bag-0")
	w.Create(pod("stray", 1, inGroup("missing")))
	w.Waits("stray", "spec.schedulingGroup.podGroupName: PodGroup", "default/missing", "does not exist")
	kubeGroup("row", "{schedulingPolicy: {gang: {minCount: 1}}, schedulingConstraints: {topology: [{key: example.com/row}]}}")
	w.Create(pod("row-0", 1, inGroup("row")))
	w.Waits("row-0", "PodGroup default/row: spec.schedulingConstraints.topology.key", "example.com/row")

	// A PodGroup's class counts for its pods, which name none.
	for _, p := range w.AllPods() {
		w.Delete(p.Name)
	}
	w.AddPriorityClass("background", -10)
	w.AddPriorityClass("urgent", 1000)
	volcanoGroup := func(name, spec string) {
		w.Apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: %s}", name, spec))
	}
	volcanoGroup("low", "{minMember: 4, priorityClassName: background}")
	volcanoGroup("high", "{minMember: 4, priorityClassName: urgent}")
	fill := func(group string) {
		for i := range 4 {
			w.Create(pod(fmt.Sprintf("%s-%d", group, i), 8, cluster.Annotate(names.AnnotationKubeGroup, group)))
		}
	}
	fill("low")
	w.gangNodes("low-", 4)
	w.Create(pod("plain", 8)) // of priority 0, more than -10
	w.Eventually("a plain pod takes the place of the background gang", func() (bool, string) { return w.left("low-") == 0, "" })
	w.Placed("plain")
	fill("high")
	w.gangNodes("high-", 4)
}
