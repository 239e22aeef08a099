package engine

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/answer"
)

// TestFleetAnswer: the sums of a fleet with work.
func TestFleetAnswer(t *testing.T) {
	s := newSetup(t, 3)
	if s.gate.Leads() {
		t.Error("leads before its first step")
	}
	used := map[string]bool{}
	for _, p := range s.runs("gang", 2, 8) {
		used[s.latest(p.Name).Spec.NodeName] = true
	}
	s.gang("large", 2, 8)
	s.Step()
	idle := "n0"
	for used[idle] {
		idle = fmt.Sprintf("n%d", idle[1]-'0'+1)
	}
	node := testNode(idle, 8)
	node.Spec.Unschedulable = true
	s.addNode(node)
	s.Step()
	s.now = s.now.Add(time.Minute)
	f := s.Fleet()
	if !s.gate.Leads() || f.Nodes != (apiquery.NodeSums{Total: 3, Ready: 2, Cordoned: 1}) {
		t.Errorf("nodes %+v", f.Nodes)
	}
	if w := f.Work; w.RunningGangs != 1 || w.RunningPods != 2 || w.WaitingGangs != 1 || w.WaitingPods != 2 || w.ChargedMilli != 16_000 || w.OldestSeconds < 50 {
		t.Errorf("work %+v", w)
	}
	if len(f.Models) != 1 || f.Models[0].Milli != 24_000 || f.Models[0].ByState["allocated"] != 16_000 || f.Models[0].ByState["cordoned"] != 8_000 {
		t.Errorf("models %+v", f.Models)
	}
}

// TestNodesAnswer: holders by name, and what changed since a version.
func TestNodesAnswer(t *testing.T) {
	s := newSetup(t, 2)
	s.runs("gang", 1, 3)
	first := s.Nodes(0)
	if len(first.Items) != 2 || first.Partial || first.Items[0].Name != "n0" {
		t.Fatalf("%+v", first)
	}
	holders := map[string]int{}
	for _, n := range first.Items {
		for _, d := range n.Devices {
			for _, h := range d.Holders {
				holders[h.Pod.Namespace+"/"+h.Pod.Name+" of "+h.Gang.Name+" in "+h.Queue]++
				if d.State != "allocated" || d.Mode != "whole" || d.HeldMilli != 1000 || h.Starting {
					t.Errorf("%+v", d)
				}
			}
		}
	}
	if len(holders) != 1 {
		t.Errorf("holders %v, want one of three devices", holders)
	}
	for what, n := range holders {
		if n != 3 || !strings.HasPrefix(what, "default/gang0 of gang in default") {
			t.Errorf("%s holds %d", what, n)
		}
	}
	// Within a second nothing is drawn anew; after it only what changed is told.
	if again := s.Nodes(first.Version); !again.Partial || len(again.Items) != 0 || again.Version != first.Version {
		t.Errorf("at once: %+v", again)
	}
	pods := s.runs("more", 1, 8)
	s.now = s.now.Add(2 * answer.DefaultAges().Lists)
	changed := s.Nodes(first.Version)
	if !changed.Partial || len(changed.Items) != 1 || changed.Items[0].Name != string(s.driver.core.Gangs.NodeOf(model.HolderID(pods[0].UID))) {
		t.Errorf("changed: %+v", changed)
	}
	node := testNode("n0", 8)
	must(t, s.nodes.Delete(node))
	s.feed.nodeHandler().OnDelete(node)
	s.Sync()
	s.now = s.now.Add(2 * answer.DefaultAges().Lists)
	gone := s.Nodes(changed.Version)
	if fmt.Sprint(gone.Removed) != "[n0]" || len(gone.Items) != 0 {
		t.Errorf("gone: %+v", gone)
	}
	for _, since := range []uint64{1, gone.Version + 1000} { // of another process
		if all := s.Nodes(since); all.Partial || len(all.Items) != 1 {
			t.Errorf("since %d: %+v", since, all)
		}
	}
	s.addNode(testNode("n0", 8))
	s.Sync()
	s.now = s.now.Add(2 * answer.DefaultAges().Lists)
	if back := s.Nodes(gone.Version); len(back.Items) != 1 || back.Items[0].Name != "n0" || len(back.Removed) != 0 {
		t.Errorf("back: %+v", back)
	}
}

// TestGangsAnswer: order, position, phase, reason and members.
func TestGangsAnswer(t *testing.T) {
	s := newSetup(t, 2)
	s.runs("runs", 2, 8)
	s.gang("first", 1, 8)
	s.gang("second", 2, 4)
	s.gang("parts", 1, 8, func(p *v1.Pod) { p.Labels["pod-group.scheduling.sigs.k8s.io/name"] = "" })
	s.Step()
	s.after(time.Minute) // reasons are told
	_, items := s.Gangs()
	if len(items) != 4 {
		t.Fatalf("%d gangs: %+v", len(items), items)
	}
	for i, g := range items[:3] {
		if g.Phase != apiquery.PhaseWaiting || g.Position != i+1 || g.Reason == nil || g.Reason.Code == "" || g.Reason.Text == "" {
			t.Errorf("%d: %+v", i, g)
		}
	}
	if items[0].Name != "first" || items[1].Name != "second" || items[1].Need != 2 || items[1].Milli != 8000 {
		t.Errorf("order: %s, %s (%+v)", items[0].Name, items[1].Name, items[1])
	}
	last := items[3]
	if last.Name != "runs" || last.Phase != apiquery.PhaseRunning || last.Position != 0 || last.Reason != nil || last.Placed != 2 || last.Milli != 16_000 {
		t.Errorf("%+v", last)
	}
	for _, name := range []string{"runs", "runs1"} { // by its own name, and by a pod's
		got := s.Members(apiquery.GangRef{Namespace: "default", Name: name})
		if len(got) != 1 || len(got[0].Members) != 2 {
			t.Fatalf("%s: %+v", name, got)
		}
		for _, m := range got[0].Members {
			if m.State != "bound" || m.Node == "" || len(m.Devices) != 8 || m.Devices[7].Milli != 1000 || len(m.Asks) != 1 {
				t.Errorf("%+v", m)
			}
		}
	}
	if got := s.Members(apiquery.GangRef{Namespace: "other", Name: "runs"}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestGangsForecast: lists have the starts that only a forecast knows, of gangs that wait.
func TestGangsForecast(t *testing.T) {
	s := newSetup(t, 1)
	s.runs("runs", 1, 8)
	s.gang("later", 1, 8)
	s.gang("unknown", 1, 8)
	s.Step()
	at := s.now.Add(time.Hour)
	s.Foresee(func(id engine.ID) (apiquery.Start, bool) {
		if strings.Contains(string(id), "unknown") {
			return apiquery.Start{}, false
		}
		return apiquery.Start{Known: apiquery.StartsForecast, At: &at}, true
	})
	got := map[string]bool{}
	_, items := s.Gangs()
	for _, g := range items {
		got[g.Name] = g.ExpectedStart != nil && g.ExpectedStart.Equal(at)
	}
	if want := map[string]bool{"runs": false, "later": true, "unknown": false}; !maps.Equal(got, want) {
		t.Errorf("with the forecast's start: %v, want %v", got, want)
	}
}

// TestQueuesAnswer: use, wants and history of queues.
func TestQueuesAnswer(t *testing.T) {
	s := newSetup(t, 1)
	s.runs("runs", 1, 6)
	s.gang("waits", 1, 4)
	s.Step()
	queues, namespaces := s.Queues()
	if len(queues.Items) != 2 || queues.Items[0].Name != "root" || queues.Items[1].Parent != "root" {
		t.Fatalf("%+v", queues)
	}
	q := queues.Items[1]
	if q.Name != "default" || q.GPUs.Used != 6000 || q.GPUs.Wanted != 10_000 || q.GPUs.Entitled != 8000 || q.Running != 1 || q.Waiting != 1 || q.State != "Open" {
		t.Errorf("%+v", q)
	}
	if queues.Items[0].Running != 1 || fmt.Sprint(namespaces) != "map[default:[default] root:[default]]" {
		t.Errorf("root %+v, namespaces %v", queues.Items[0], namespaces)
	}
	found := false
	for _, r := range q.Resources {
		found = found || r.Resource == "nvidia.com/gpu" && r.Used == 6000 && r.Guarantee == nil
	}
	if !found {
		t.Errorf("resources %+v", q.Resources)
	}
}

// TestTimelineAnswer: what becomes of a gang, once each.
func TestTimelineAnswer(t *testing.T) {
	s := newSetup(t, 1)
	kinds := func(since uint64) (out []string) {
		for _, e := range s.Timeline(since).Items {
			out = append(out, e.Kind+" "+e.Gang.Name)
		}
		return out
	}
	if tl := s.Timeline(0); len(tl.Items) != 0 || tl.Lost {
		t.Errorf("%+v", tl)
	}
	pods := s.runs("gang", 2, 2)
	if got, want := fmt.Sprint(kinds(0)), "[Placed gang Started gang]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	at := s.Timeline(0).Version
	if tl := s.Timeline(at); len(tl.Items) != 0 || tl.Lost || tl.Version != at {
		t.Errorf("%+v", tl)
	}
	// A start that fails.
	failing := s.gang("fails", 1, 1)
	s.Step()
	c, ok := s.Begin(failing[0])
	if !ok {
		t.Fatal("not released")
	}
	s.Failed(failing[0], c.Ticket, "no volume")
	if got, want := fmt.Sprint(kinds(at)), "[Placed fails StartFailed fails]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.deletePod(failing[0].Name)
	for _, p := range pods {
		s.deletePod(p.Name)
	}
	s.Step()
	if got, want := fmt.Sprint(kinds(at)), "[Placed fails StartFailed fails Ended gang]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := s.observer.Size(); n != 0 {
		t.Errorf("%d gangs are remembered", n)
	}
	// Versions of another process.
	if tl := s.Timeline(1); !tl.Lost || len(tl.Items) != 5 {
		t.Errorf("%+v", tl)
	}
}

// blind may list the pods of every namespace, and nothing else.
type blind struct{}

func (blind) MayListPods(string) bool { return true }
func (blind) MayListNodes() bool      { return false }
func (blind) MayListQueues() bool     { return false }

// TestPlannedPlaceIsHidden: where a pod will be, and on which devices, is not told to who
// may not list nodes before its pod says so.
func TestPlannedPlaceIsHidden(t *testing.T) {
	s := newSetup(t, 1)
	pods, releases := s.planned("gang", 1, 2)
	if len(releases) != 1 {
		t.Fatalf("%d releases", len(releases))
	}
	out, problem := s.Explain("default", pods[0].Name, blind{})
	if problem != "" || out.Node != "" || len(out.Devices) > 0 || out.Devices == nil {
		t.Errorf("explain: node %q, devices %+v, problem %q", out.Node, out.Devices, problem)
	}
	members := s.Why(t.Context(), "Pod", "default", pods[0].Name, blind{}, nil).Gang.Members
	if len(members) != 1 || members[0].State != "starting" || members[0].Node != "" || len(members[0].Devices) > 0 {
		t.Errorf("why: %+v", members)
	}
}
