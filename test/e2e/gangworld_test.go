package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// newGangWorld is a control plane with the kinds gangs and queues come from, and
// nodes, but no scheduler yet.
func newGangWorld(t *testing.T, o local.Options, fleet string) *world {
	t.Helper()
	w := startWorld(t, o, config.RBAC(), config.CRDs(), config.VolcanoCRDs())
	w.Fleet(fleet)
	return w
}

// step is a subtest on a world that it shares with others.
type step struct {
	name string
	run  func(*world)
}

// each runs subtests one after the other, and deletes all pods after each.
func (w *world) each(t *testing.T, steps []step) {
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			w := w.within(t)
			t.Cleanup(func() {
				if t.Failed() {
					for _, p := range w.AllPods() {
						t.Logf("%s on %q: %s", p.Name, p.Spec.NodeName, cluster.Waiting(&p))
					}
				}
				w.Clear()
			})
			s.run(w)
		})
	}
}

// createGang creates a gang of n pods by labels, named gang-0 and so on.
func (w *world) createGang(gang string, n, gpus int, change ...cluster.Change) {
	w.T.Helper()
	for _, p := range cluster.Members(gang, n, gpus, change...) {
		w.Create(p)
	}
}

// gangNodes waits until all pods with a prefix are bound, and counts them by node.
func (w *world) gangNodes(prefix string, n int) map[string]int {
	w.T.Helper()
	var nodes map[string]int
	w.Eventually(fmt.Sprintf("%d pods %s* are bound", n, prefix), func() (bool, string) {
		nodes = map[string]int{}
		seen, bound := "", 0
		for _, p := range w.AllPods() {
			if !strings.HasPrefix(p.Name, prefix) {
				continue
			}
			if p.Spec.NodeName != "" {
				nodes[p.Spec.NodeName]++
				bound++
			} else if seen == "" {
				seen = p.Name + " " + cluster.Waiting(&p)
			}
		}
		return bound == n, fmt.Sprintf("%d bound; %s", bound, seen)
	})
	return nodes
}

// noneBound checks for a while that no pod with a prefix gets bound.
func (w *world) noneBound(prefix string, during time.Duration) {
	w.T.Helper()
	w.Stays(during, "pods "+prefix+"* wait", func() string {
		for _, p := range w.AllPods() {
			if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
				return p.Name + " is bound to " + p.Spec.NodeName
			}
		}
		return ""
	})
}

// notShown checks that a pod is not shown to an autoscaler as unschedulable. Autoscalers
// look for that reason alone: a condition with another one is for people.
func (w *world) notShown(name string) {
	w.T.Helper()
	if c := cluster.Scheduled(w.Get(name)); c.Reason == v1.PodReasonUnschedulable {
		w.T.Errorf("pod %s is shown to autoscalers: %s", name, c.Message)
	}
}

// gangOf is the gang a test gave a pod by label; empty for others.
func gangOf(p *v1.Pod) string { return p.Labels[names.LabelGang] }

// live says whether a pod holds or wants devices.
func live(p *v1.Pod) bool {
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
