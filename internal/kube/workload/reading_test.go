package workload

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// A PodGroup is read once for all its pods, again when it or the levels of domains changed,
// and nothing is kept of it when its pods are gone.
func TestReadOnce(t *testing.T) {
	w := newWorld(t)
	group := func(least int, uid string) {
		w.serve(dialect.PodGroups, fmt.Sprintf(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup,
  metadata: {name: g, namespace: default, uid: %s}, spec: {minMember: %d, networkTopology: {mode: hard, highestTierName: rack}}}`, uid, least))
	}
	group(3, "one")
	var pods []*v1.Pod
	for i := range 20 {
		p := w.pod(fmt.Sprint("p", i), "", 0, 1)
		p.Annotations[names.AnnotationKubeGroup] = "g"
		pods = append(pods, p)
	}
	expect := func(parsed, least int) {
		t.Helper()
		g := w.describe("podgroup/default/g")
		if g.Min != least || w.owners.parsed != parsed {
			t.Errorf("needs %d members, want %d; read %d times, want %d", g.Min, least, w.owners.parsed, parsed)
		}
	}
	w.set(pods...)
	expect(1, 3)
	group(4, "two") // made anew, and seen before the event
	expect(2, 4)
	w.OwnerChanged(dialect.PodGroups, "default/g", w.now)
	expect(3, 4)
	before := w.describe("podgroup/default/g").Require.Depth
	levels := append(topology.Levels{{Name: "region", Label: "region"}}, topology.DefaultLevels()...)
	w.reader.Levels = func() topology.Levels { return levels }
	w.LevelsChanged(w.now)
	expect(4, 4)
	if after := w.describe("podgroup/default/g").Require.Depth; after != before+1 {
		t.Errorf("rack is at depth %d, was at %d without regions", after, before)
	}
	w.gone(pods...)
	if len(w.owners.readings) > 0 {
		t.Errorf("%d readings are kept", len(w.owners.readings))
	}
}

// TestPodIsReadOnce: a version of a pod is read once, and again when it or the levels of
// domains changed; bound pods are not kept, and those that are gone are forgotten.
func TestPodIsReadOnce(t *testing.T) {
	w := newWorld(t)
	r := w.reader
	first := w.pod("p", "", 0, 1)
	first.ResourceVersion = "1"
	for range 3 {
		if x := r.Read(first.DeepCopy()); x.Request == nil || x.RequestErr != nil || x.MembershipErr != nil {
			t.Fatalf("%+v", x)
		}
		if got, err := r.RequestIn(first, r.Profile(first.Spec.SchedulerName)); err != nil || got == r.Read(first).Request {
			t.Fatalf("%v, or the request is shared", err)
		}
	}
	expect := func(parsed, kept int64) {
		t.Helper()
		if r.parsed.Load() != parsed || r.kept.Load() != kept {
			t.Errorf("read %d times, want %d; %d kept, want %d", r.parsed.Load(), parsed, r.kept.Load(), kept)
		}
	}
	expect(1, 1)
	second := first.DeepCopy()
	second.ResourceVersion, second.Labels[names.LabelGang] = "2", "bad name"
	if x := r.Read(second); x.MembershipErr == nil {
		t.Error("an old reading was used")
	}
	expect(2, 1)
	levels := append(topology.Levels{{Name: "region", Label: "region"}}, topology.DefaultLevels()...)
	r.Levels = func() topology.Levels { return levels }
	r.Read(second)
	expect(3, 1)
	bound := first.DeepCopy()
	bound.ResourceVersion, bound.Spec.NodeName = "3", "n"
	r.Read(bound)
	expect(4, 1)
	r.Forget(bound.UID)
	r.Forget(bound.UID)
	expect(4, 0)
	for i := range maxReadings + 10 {
		p := &v1.Pod{}
		p.UID = types.UID(fmt.Sprint(i))
		r.Read(p)
	}
	if n := r.kept.Load(); n > 10 {
		t.Errorf("%d are kept", n)
	}
}
