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
	"github.com/tangram-dev/tangram/test/cluster"
)

// trustWorld is one node of 16 GPUs and a scheduler.
func trustWorld(t *testing.T) *world {
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 16}}]`)
	return w
}

// leaves says whether a pod was told to go.
func leaves(p *v1.Pod) bool { return p == nil || p.DeletionTimestamp != nil }

// forge binds a pod by hand, with a record.
func (w *world) forge(name, record string, change ...func(*v1.Pod)) {
	w.T.Helper()
	w.Create(pod(name, 1, append(change, cluster.Annotate(names.AnnotationDevices, record))...))
	w.Must(w.Bind(name, "n-0", nil))
}

// write puts a record on a pod, as its owner or an agent can.
func (w *world) write(name, record string) {
	w.T.Helper()
	p := w.Get(name)
	p.Annotations[names.AnnotationDevices] = record
	w.Update(p)
}

// noneLeaves checks for a while that pods exist and are not told to go.
func (w *world) noneLeaves(during time.Duration, pods ...string) {
	w.T.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, name := range pods {
			if leaves(w.Find(name)) {
				w.T.Fatalf("pod %s has to go: %v", name, w.Events("Pod", name))
			}
		}
	}
}

// TestForgedRecordEndsNoPod: tenants write records that name devices of pods which the
// scheduler placed: bound by hand in the same second, created with spec.nodeName, edited
// into an older pod, and while no scheduler runs. The honest pods stay, with their
// devices; only pods with forged records may lose anything.
func TestForgedRecordEndsNoPod(t *testing.T) {
	t.Parallel()
	w := trustWorld(t)
	s := w.Scheduler(nil)
	byHand := func(p *v1.Pod) { p.Spec.SchedulerName = "by-hand" }
	w.Create(pod("editor", 1))
	w.Placed("editor")
	w.Create(pod("sleeper", 1))
	w.Placed("sleeper")
	records := map[string]string{}
	const pairs = 6
	for i := range pairs {
		honest := fmt.Sprintf("honest-%d", i)
		w.Create(pod(honest, 1))
		w.Placed(honest)
		records[honest] = w.Get(honest).Annotations[names.AnnotationDevices]
		w.forge(fmt.Sprintf("forger-%d", i), records[honest], byHand)
	}
	w.Create(pod("placed", 1, func(p *v1.Pod) { p.Spec.NodeName = "n-0" }, cluster.Annotate(names.AnnotationDevices, records["honest-0"])))
	w.write("editor", records["honest-1"])
	w.noneLeaves(2*time.Second, slices.Collect(maps.Keys(records))...)
	for i := range pairs {
		w.Event("Pod", fmt.Sprintf("forger-%d", i), "held by pods that had it first", fmt.Sprintf("pod default/honest-%d holds it", i))
	}
	// Pods of this scheduler on devices that it gave to others itself have to go.
	for _, name := range []string{"placed", "editor"} {
		w.Eventually(name+" has to go", func() (bool, string) {
			return leaves(w.Find(name)), strings.Join(w.Events("Pod", name), "; ")
		})
	}
	stay := []string{"sleeper"}
	for i := range pairs {
		stay = append(stay, fmt.Sprintf("honest-%d", i), fmt.Sprintf("forger-%d", i))
	}
	w.noneLeaves(time.Second, stay...)

	// While no scheduler runs, the oldest pod of all gets a record of the youngest.
	w.Must(s.Kill())
	last := fmt.Sprintf("honest-%d", pairs-1)
	own := w.Get("sleeper").Annotations[names.AnnotationDevices]
	w.write("sleeper", records[last])
	s = w.Scheduler(nil)
	w.Create(pod("probe", 1))
	w.Placed("probe")
	// A new process knows neither; the one it reads second is told of the other, and both stay.
	w.Eventually("an event about the two records of one device", func() (bool, string) {
		said := append(w.Events("Pod", last), w.Events("Pod", "sleeper")...)
		return slices.ContainsFunc(said, func(note string) bool {
			return strings.Contains(note, "pod default/sleeper holds it") || strings.Contains(note, "pod default/"+last+" holds it")
		}), strings.Join(said, "; ")
	})
	w.noneLeaves(3*time.Second, append(stay, "probe")...)
	// The agent on the node knows better, and says so.
	w.write("sleeper", own)
	for name, want := range records {
		if got := w.Get(name).Annotations[names.AnnotationDevices]; got != want {
			t.Errorf("%s: record %s, was given %s", name, got, want)
		}
	}
	w.selfCheck(s, len(w.AllPods()))
}
