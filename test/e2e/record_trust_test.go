package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// trustWorld is one node of 16 GPUs and a scheduler.
func trustWorld(t *testing.T) *world {
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 16}}]`)
	return w
}

// leaves says whether a pod was told to go.
func leaves(p *v1.Pod) bool { return p == nil || p.DeletionTimestamp != nil }

// forge binds a pod by hand, with a record.
func (w *world) forge(name, record string, change ...func(*v1.Pod)) {
	w.t.Helper()
	w.create(pod(name, 1, append(change, annotated(names.AnnotationDevices, record))...))
	err := w.client.CoreV1().Pods("default").Bind(context.Background(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: "n-0"},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// write puts a record on a pod, as its owner or an agent can.
func (w *world) write(name, record string) {
	w.t.Helper()
	p := w.get(name)
	p.Annotations[names.AnnotationDevices] = record
	if _, err := w.client.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// noneLeaves checks for a while that pods exist and are not told to go.
func (w *world) noneLeaves(during time.Duration, pods ...string) {
	w.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, name := range pods {
			if leaves(w.find("default", name)) {
				w.t.Fatalf("pod %s has to go: %v", name, w.notesOn("Pod", name))
			}
		}
	}
}

// TestForgedRecordEndsNobody: tenants write records that name devices of pods which the
// scheduler placed: bound by hand in the same second, created with spec.nodeName, edited
// into an older pod, and while no scheduler runs. The honest pods stay, with their
// devices; only who lies may lose anything.
func TestForgedRecordEndsNobody(t *testing.T) {
	t.Parallel()
	w := trustWorld(t)
	s := w.scheduler(nil)
	byHand := func(p *v1.Pod) { p.Spec.SchedulerName = "by-hand" }
	w.create(pod("editor", 1))
	w.bound("editor")
	w.create(pod("sleeper", 1))
	w.bound("sleeper")
	records := map[string]string{}
	const pairs = 6
	for i := range pairs {
		honest := fmt.Sprintf("honest-%d", i)
		w.create(pod(honest, 1))
		w.bound(honest)
		records[honest] = w.get(honest).Annotations[names.AnnotationDevices]
		w.forge(fmt.Sprintf("forger-%d", i), records[honest], byHand)
	}
	w.create(pod("placed", 1, func(p *v1.Pod) { p.Spec.NodeName = "n-0" }, annotated(names.AnnotationDevices, records["honest-0"])))
	w.write("editor", records["honest-1"])
	w.noneLeaves(2*time.Second, slices.Collect(maps.Keys(records))...)
	for i := range pairs {
		w.event("Pod", fmt.Sprintf("forger-%d", i), "held by pods that had it first", fmt.Sprintf("pod default/honest-%d holds it", i))
	}
	// Pods of this scheduler on devices that it gave to others itself have to go.
	for _, name := range []string{"placed", "editor"} {
		w.eventually(name+" has to go", 20*time.Second, func() (bool, string) {
			return leaves(w.find("default", name)), strings.Join(w.notesOn("Pod", name), "; ")
		})
	}
	stay := []string{"sleeper"}
	for i := range pairs {
		stay = append(stay, fmt.Sprintf("honest-%d", i), fmt.Sprintf("forger-%d", i))
	}
	w.noneLeaves(time.Second, stay...)

	// While nobody looks, the oldest pod of all gets a record of the youngest.
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprintf("honest-%d", pairs-1)
	own := w.get("sleeper").Annotations[names.AnnotationDevices]
	w.write("sleeper", records[last])
	s = w.scheduler(nil)
	w.create(pod("probe", 1))
	w.bound("probe")
	// A new process knows neither; the one it reads second is told of the other, and both stay.
	w.eventually("an event about the two records of one device", 20*time.Second, func() (bool, string) {
		said := append(w.notesOn("Pod", last), w.notesOn("Pod", "sleeper")...)
		return slices.ContainsFunc(said, func(note string) bool {
			return strings.Contains(note, "pod default/sleeper holds it") || strings.Contains(note, "pod default/"+last+" holds it")
		}), strings.Join(said, "; ")
	})
	w.noneLeaves(3*time.Second, append(stay, "probe")...)
	// The agent on the node knows better, and says so.
	w.write("sleeper", own)
	for name, want := range records {
		if got := w.get(name).Annotations[names.AnnotationDevices]; got != want {
			t.Errorf("%s: record %s, was given %s", name, got, want)
		}
	}
	w.selfCheck(s, len(w.pods()))
}
