package workload

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

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
		if g.Min != least || w.parsed != parsed {
			t.Errorf("needs %d members, want %d; read %d times, want %d", g.Min, least, w.parsed, parsed)
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
	if len(w.readings) > 0 {
		t.Errorf("%d readings are kept", len(w.readings))
	}
}
