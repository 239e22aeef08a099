package operators

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/test/cluster"
)

// groups is LeaderWorkerSet's sample with n groups of size pods of a whole node each.
func (w *world) groups(name string, n, size int64) *unstructured.Unstructured {
	w.T.Helper()
	o := adapt(w.sample("lws", "samples/leaderworkerset_v1_leaderworkerset.yaml", "LeaderWorkerSet", 0), name, everywhere(8))
	set(o, size, "spec", "leaderWorkerTemplate", "size")
	return set(o, n, "spec", "replicas")
}

// expectGroups tells the judge of the groups of a set.
func (w *world) expectGroups(name string, n, size int) {
	for i := range n {
		w.judge.expect(fmt.Sprintf("%s/%d", name, i), size, both(label(lws, name), label(lwsGroup, number(i))))
	}
}

// wholeGroups waits until n pods of a set exist and as many groups run whole, the others
// not at all.
func (w *world) wholeGroups(name string, n, groups, size int) {
	w.T.Helper()
	w.eventually(fmt.Sprintf("%d groups of %s run", groups, name), func(pods []*v1.Pod) (bool, string) {
		of, whole, none := labelled(pods, lws, name), 0, 0
		byGroup := map[string][]*v1.Pod{}
		for _, p := range of {
			byGroup[p.Labels[lwsGroup]] = append(byGroup[p.Labels[lwsGroup]], p)
		}
		for _, g := range byGroup {
			switch bound(g) {
			case size:
				whole++
			case 0:
				none++
			}
		}
		return len(of) == n && whole == groups && whole+none == len(byGroup), summary(of)
	})
}

// TestLWS: each group starts whole or not at all, with and without PodGroups.
func TestLWS(t *testing.T) {
	for name, o := range map[string]cluster.Operator{
		"plain":   {Name: "lws"},
		"volcano": {Name: "lws", Config: "gangSchedulingManagement: {schedulerProvider: volcano}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "lws")
			if o.Config != "" {
				w.with(o)
			}
			// Eight nodes: two groups of three, and two nodes that stay free.
			w.expectGroups("three", 3, 3)
			w.create(w.groups("three", 3, 3))
			w.wholeGroups("three", 9, 2, 3)
			w.expectGroups("pair", 1, 2)
			w.create(w.groups("pair", 1, 2))
			w.wholeGroups("pair", 2, 1, 2)
			w.remove("LeaderWorkerSet", "pair")
			w.change("LeaderWorkerSet", "three", `{"spec": {"replicas": 2}}`)
			w.wholeGroups("three", 6, 2, 3)
		})
		t.Run(name+", when the leader is ready", func(t *testing.T) {
			w := newWorld(t, "lws")
			if o.Config != "" {
				w.with(o)
			}
			// Leaders are of no use without their workers, but exist before these.
			o := set(w.groups("ready", 2, 4), "LeaderReady", "spec", "startupPolicy")
			for i := range 2 {
				w.judge.expect(fmt.Sprintf("ready/%d", i), 3, both(both(label(lws, "ready"), label(lwsGroup, number(i))), func(p *v1.Pod) bool {
					return p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] != "0"
				}))
			}
			w.create(o)
			w.wholeGroups("ready", 8, 2, 4)
			w.remove("LeaderWorkerSet", "ready")
			w.eventually("no pod is left", func(pods []*v1.Pod) (bool, string) { return len(pods) == 0, summary(pods) })

			// With room for seven the second group's workers wait, all of them.
			w.apply(single("holder", 8))
			w.running("app", "holder", 1)
			w.create(set(w.groups("late", 2, 4), "LeaderReady", "spec", "startupPolicy"))
			w.eventually("one group and a leader run", func(pods []*v1.Pod) (bool, string) {
				of := labelled(pods, lws, "late")
				return len(of) == 8 && bound(of) == 5, summary(of)
			})
		})
	}
}

// TestLWSExclusive: each group has a rack of its own; workers are created when the leader
// has its place.
func TestLWSExclusive(t *testing.T) {
	w := newWorld(t, "lws")
	o := adapt(w.sample("lws", "samples/leaderworkerset_exclusiveplacement.yaml", "LeaderWorkerSet", 0), "exclusive", everywhere(4))
	o.SetAnnotations(map[string]string{"leaderworkerset.sigs.k8s.io/exclusive-topology": rackLabel})
	w.create(o)
	w.wholeGroups("exclusive", 12, 3, 4)
	if racks := w.racks(lws, "exclusive"); len(racks) != 3 {
		t.Errorf("three groups run in racks %v", racks)
	}
}

// single is a pod.
func single(name string, gpus int) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default, labels: {app: %s}}, spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: %d}}}]}}`, name, name, gpus)
}
