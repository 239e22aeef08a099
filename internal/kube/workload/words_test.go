package workload

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
)

// TestKAIWords: priority by label, non-preemptible from 100 on, and a delay before others
// are evicted that ends by itself.
func TestKAIWords(t *testing.T) {
	w := newWorld(t)
	w.reader.Own(names.KAISchedulerName, Profile{})
	kai := func(name string, change func(*v1.Pod)) *v1.Pod {
		p := w.pod(name, "", 0, 1)
		p.Spec.SchedulerName, p.Labels[names.LabelKAIQueue] = names.KAISchedulerName, "q"
		change(p)
		w.set(p)
		return p
	}
	kai("train", func(p *v1.Pod) { p.Labels["priorityClassName"] = "train" })
	if g := w.describe("pod/uid-train"); g.Priority != 50 || !g.Preemptible || g.Queue != "q" {
		t.Errorf("got %+v", g)
	}
	kai("build", func(p *v1.Pod) { p.Labels["priorityClassName"] = "build" })
	if g := w.describe("pod/uid-build"); g.Priority != 100 || g.Preemptible {
		t.Errorf("got %+v", g)
	}
	kai("yields", func(p *v1.Pod) {
		p.Labels["priorityClassName"], p.Labels["kai.scheduler/preemptibility"] = "inference", "preemptible"
	})
	if g := w.describe("pod/uid-yields"); g.Priority != 125 || !g.Preemptible {
		t.Errorf("got %+v", g)
	}
	kai("patient", func(p *v1.Pod) { p.Annotations["kai.scheduler/preemption-delay"] = "5m" })
	if g := w.describe("pod/uid-patient"); !g.NeverPreempts {
		t.Error("evicts at once")
	}
	w.Changed()
	w.now = w.now.Add(5*time.Minute + 2*time.Second)
	w.Due(w.now)
	if ids := w.Changed(); len(ids) != 1 || ids[0] != "pod/uid-patient" || w.describe("pod/uid-patient").NeverPreempts {
		t.Errorf("changed %v, and still does not evict", ids)
	}
}

// TestBundledGangs: Koordinator's gangs that are bundled are one gang, which needs each of
// them.
func TestBundledGangs(t *testing.T) {
	w := newWorld(t)
	member := func(name, gang, least string) *v1.Pod {
		p := w.pod(name, "", 0, 1)
		p.Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": gang, "gang.scheduling.koordinator.sh/min-available": least, "gang.scheduling.koordinator.sh/groups": `["default/a","default/b"]`}
		return p
	}
	w.set(member("a0", "a", "2"), member("a1", "a", "2"))
	if g := w.describe("koord/default/a+b"); g.Min != 3 || g.Invalid != "" {
		t.Errorf("without members of b: needs %d, %s", g.Min, g.Invalid)
	}
	w.set(member("b0", "b", "2"), member("b1", "b", "2"), member("b2", "b", "2"))
	g := w.describe("koord/default/a+b")
	least := map[string]int{}
	for _, r := range g.Roles {
		least[r.Name] += r.Min
	}
	if g.Min != 4 || least["a"] != 2 || least["b"] != 2 {
		t.Errorf("needs %d, %v", g.Min, least)
	}
}

// TestLevelsChanged: pods that named a level that did not exist are read again.
func TestLevelsChanged(t *testing.T) {
	w := newWorld(t)
	p := w.pod("p", "", 0, 1)
	p.Annotations["kueue.x-k8s.io/podset-required-topology"] = "example.com/row"
	w.set(p)
	if g := w.describe("pod/uid-p"); g.Invalid == "" {
		t.Fatal("an unknown level is known")
	}
	levels := append(topology.Levels{{Name: "row", Label: "example.com/row"}}, topology.DefaultLevels()...)
	w.reader.Levels = func() topology.Levels { return levels }
	w.LevelsChanged(w.now)
	if g := w.describe("pod/uid-p"); g.Invalid != "" || g.Require.Name != "row" {
		t.Errorf("got %+v", g)
	}
}
