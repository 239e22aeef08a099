package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// GangOf says to which gang a pod belongs, and how many members that has; "" for none.
type GangOf func(*v1.Pod) (gang string, size int)

// WholeGangs waits until so many gangs are bound, each whole, and fails the test for a gang
// of which a part is bound for longer than bindings take.
func (w *World) WholeGangs(running int, gangOf GangOf) []string {
	w.T.Helper()
	const patience = 10 * time.Second // for the last binding, on a busy machine
	partial := map[string]time.Time{}
	var whole []string
	w.Eventually(fmt.Sprintf("%d gangs run, whole", running), func() (bool, string) {
		bound, size := map[string]int{}, map[string]int{}
		for _, p := range w.Pods("") {
			if gang, n := gangOf(&p); gang != "" && Live(&p) {
				size[gang] = n
				if p.Spec.NodeName != "" {
					bound[gang]++
				}
			}
		}
		whole = whole[:0]
		settled := true
		for _, name := range slices.Sorted(maps.Keys(size)) {
			if n := bound[name]; n == 0 || n == size[name] {
				delete(partial, name)
				if n > 0 {
					whole = append(whole, name)
				}
				continue
			}
			settled = false
			if since, ok := partial[name]; !ok {
				partial[name] = time.Now()
			} else if time.Since(since) > patience {
				w.T.Fatalf("half a gang: %d of %d pods of %s are bound for %s", bound[name], size[name], name, time.Since(since))
			}
		}
		return settled && len(whole) >= running, fmt.Sprintf("whole: %v; bound: %v", whole, bound)
	})
	return whole
}
