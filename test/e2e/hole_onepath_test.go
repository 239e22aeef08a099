package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHoleOnePath: an idle queue that no pod names changes nothing: the same single pods
// start on the same nodes, the same ones are evicted, and the same reasons are given.
func TestHoleOnePath(t *testing.T) {
	t.Parallel()
	without, with := storyOfSingles(t, false), storyOfSingles(t, true)
	t.Logf("without a queue:\n%s", strings.Join(without, "\n"))
	if !slices.Equal(without, with) {
		t.Errorf("with an idle queue:\n%s", strings.Join(with, "\n"))
	}
}

// storyOfSingles lets pods of two priorities compete for eight GPUs, one after the
// other, and tells what became of them.
func storyOfSingles(t *testing.T, queue bool) (story []string) {
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a, count: 1, gpu: {model: A100-80GB, count: 4}}
- {name: b, count: 1, gpu: {model: V100-32GB, count: 4}}
`)
	if queue {
		w.AddQueue("idle", "{weight: 1}")
	}
	w.AddPriorityClass("low", 10)
	w.AddPriorityClass("high", 1000)
	w.Scheduler(nil)
	tell := func(format string, args ...any) { story = append(story, fmt.Sprintf(format, args...)) }
	submit := func(name string, gpus int, class string) {
		w.Create(pod(name, gpus, cluster.Priority(class), func(p *v1.Pod) { now := int64(0); p.Spec.TerminationGracePeriodSeconds = &now }))
	}
	starts := func(name string) {
		node, rec := w.Placed(name)
		tell("%s starts on %s, device %d", name, node, rec.Containers[0].Devices[0].Index)
	}
	waits := func(name string) {
		w.Eventually(name+" is told why it waits", func() (bool, string) {
			return cluster.Scheduled(w.Get(name)).Message != "", "no condition"
		})
		time.Sleep(2 * time.Second) // the last word counts
		tell("%s waits: %s", name, cluster.Scheduled(w.Get(name)).Message)
	}
	for i := range 8 {
		submit(fmt.Sprintf("low-%d", i), 1, "low")
		starts(fmt.Sprintf("low-%d", i))
	}
	submit("equal", 1, "low")
	waits("equal")
	submit("huge", 16, "high")
	waits("huge")
	submit("important", 2, "high")
	starts("important")
	for i := range 8 {
		if w.Find(fmt.Sprintf("low-%d", i)) == nil {
			tell("low-%d is evicted", i)
		}
	}
	w.Delete("important")
	starts("equal")
	return story
}
