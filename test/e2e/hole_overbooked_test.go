package e2e

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// TestHoleOverbookedByHand: two pods are put on a node by hand, with more GPUs than it
// has. Nothing can be done about it, but an event of the pod or the node says so.
func TestHoleOverbookedByHand(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	w.Scheduler(nil)
	on := func(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }
	warnings := func(objects ...[2]string) (found []string) {
		for _, o := range objects {
			for _, note := range w.Events(o[0], o[1]) {
				if strings.HasPrefix(note, v1.EventTypeWarning) {
					found = append(found, note)
				}
			}
		}
		return found
	}
	w.Create(pod("fits", 8, on("n-1")))
	w.Create(pod("first", 5, on("n-0")))
	w.Create(pod("second", 5, on("n-0")))
	w.Eventually("an event says that n-0 is overbooked", func() (bool, string) {
		found := warnings([2]string{"Pod", "first"}, [2]string{"Pod", "second"}, [2]string{"Node", "n-0"})
		return strings.Contains(strings.Join(found, "; "), "GPU"), strings.Join(found, "; ")
	})
	if found := warnings([2]string{"Pod", "fits"}, [2]string{"Node", "n-1"}); len(found) > 0 {
		t.Errorf("n-1 is not overbooked: %v", found)
	}
}
