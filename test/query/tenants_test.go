package query

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestTenants: two tenants hold devices of the same nodes, wait for each other and are
// evicted for each other, and none learns a name of the other's in any answer. Everything
// that team-b has is called bsecret-..., what team-a has asecret-....
func TestTenants(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	on := func(pool string) cluster.Change { return cluster.On(fleet.LabelPool, pool) }
	in, class := cluster.Queue, cluster.Priority
	// Both hold devices of one node, and of others.
	for i := range 4 {
		w.pod("team-b", fmt.Sprintf("bsecret-run-%d", i), 4, in("bsecret-queue"), on("n"))
		w.pod("team-a", fmt.Sprintf("asecret-run-%d", i), 4, in("asecret-queue"), on("n"))
	}
	for _, ns := range []string{"team-a", "team-b"} {
		w.bound(ns, 4)
	}
	// Both wait in one queue, b before a and a before b.
	w.pod("team-b", "bsecret-wait-0", 8, on("n"))
	w.pod("team-a", "asecret-wait-0", 8, on("n"))
	w.pod("team-b", "bsecret-wait-1", 8, on("n"))
	w.pod("team-a", "asecret-wait-1", 8, on("n"))
	// One of b's is evicted for one of a's, and the other way round.
	w.pod("team-b", "bsecret-victim", 4, on("s"), class("low"))
	w.pod("team-a", "asecret-victim", 4, on("s"), class("low"))
	w.pod("ops", "filler", 4, on("s"), class("high"))
	w.bound("team-b", 5)
	w.bound("team-a", 5)
	w.bound("ops", 1)
	w.pod("team-a", "asecret-urgent", 4, on("s"), class("high"))
	w.pod("team-b", "bsecret-urgent", 4, on("s"), class("high"))
	operator := w.as("ops/operator")
	w.Eventually("evictions in the timeline, reasons of those that wait", func() (bool, string) {
		evicted, told := 0, 0
		for _, e := range cluster.Ask[apiquery.Timeline](t, operator, apiquery.PathTimeline).Items {
			if e.Kind == apiquery.EventEvicted && e.For != nil {
				evicted++
			}
		}
		for _, g := range cluster.Ask[apiquery.Gangs](t, operator, apiquery.PathGangs+"?phase=Waiting").Items {
			if strings.Contains(g.Name, "-wait-") && g.Reason != nil && g.Position > 0 {
				told++
			}
		}
		return evicted >= 2 && told == 4, fmt.Sprintf("%d evicted, %d told", evicted, told)
	})
	for _, who := range []struct{ account, namespace, own, others string }{
		{"team-a/alice", "team-a", "asecret", "bsecret"},
		{"team-b/bob", "team-b", "bsecret", "asecret"},
	} {
		t.Run(who.namespace, func(t *testing.T) {
			w := w.in(t)
			a := w.as(who.account)
			other := map[string]string{"team-a": "team-b", "team-b": "team-a"}[who.namespace]
			for _, path := range questionsOf(who.namespace, who.own) {
				method, body := http.MethodGet, io.Reader(nil)
				if strings.HasPrefix(path, apiquery.PathWhatIf) {
					method, body = http.MethodPost, strings.NewReader(greedy)
				}
				answer := a.Do(t, method, path, body)
				status, text := answer.Status, answer.Text
				switch {
				case status == http.StatusForbidden && (path == apiquery.PathDump || path == apiquery.PathWhatIf): // all names; namespace default
				case status == http.StatusNotFound && (strings.Contains(path, "-victim") || strings.HasPrefix(path, apiquery.PathExplain)): // gone; it waits
				case status == http.StatusBadRequest && !strings.Contains(path, "?"): // a name is needed
				case status != http.StatusOK:
					t.Errorf("%s: %d: %s", path, status, text)
				}
				for _, secret := range []string{who.others, other} {
					if i := strings.Index(text, secret); i >= 0 {
						t.Errorf("%s shows %q to %s: ...%s", path, secret, who.account, text[max(0, i-200):min(len(text), i+60)])
					}
				}
			}
			w.seesOwn(t, a, who.namespace, who.own)
			// The answer about a name that the caller gives does not say whether it exists.
			for _, path := range []string{
				apiquery.PathGangs + "?namespace=" + other,
				apiquery.PathGangs + "?namespace=" + other + "&name=" + who.others + "-run-0",
				apiquery.PathGangs + "?queue=" + who.others + "-queue",
			} {
				if g := cluster.Ask[apiquery.Gangs](t, a, path); len(g.Items) > 0 {
					t.Errorf("%s: %+v", path, g.Items)
				}
			}
			real := unanswered(t, a, apiquery.PathHistory+"?queue="+who.others+"-queue", http.StatusNotFound)
			made := unanswered(t, a, apiquery.PathHistory+"?queue="+who.others+"-other", http.StatusNotFound)
			if strings.ReplaceAll(real.Message, "-queue", "-other") != made.Message {
				t.Errorf("a queue that exists is told apart: %q, %q", real.Message, made.Message)
			}
		})
	}
	// What the scheduler writes into a tenant's namespace: events, and conditions of pods.
	for namespace, others := range map[string]string{"team-a": "bsecret", "team-b": "asecret"} {
		t.Run("objects of "+namespace, func(t *testing.T) {
			w := w.in(t)
			var seen []string
			w.Eventually("the event of an eviction", func() (bool, string) {
				events, err := w.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
				w.Must(err)
				seen = nil
				evicted := false
				for _, e := range events.Items {
					seen = append(seen, e.Note)
					evicted = evicted || e.Reason == "Preempted"
				}
				return evicted, fmt.Sprintf("%d events", len(seen))
			})
			for _, p := range w.Within(namespace).Pods("") {
				for _, c := range p.Status.Conditions {
					seen = append(seen, c.Message)
				}
			}
			for _, text := range seen {
				if strings.Contains(text, others) {
					t.Errorf("%q", text)
				}
			}
		})
	}
	t.Run("viewer", func(t *testing.T) {
		w := w.in(t)
		viewer := w.as("ops/viewer")
		for _, path := range questionsOf("ops", "filler") {
			text := viewer.Do(t, http.MethodGet, path, nil).Text
			for _, secret := range []string{"asecret", "bsecret", "team-a", "team-b", "filler\"", `"n-0"`} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows %q to a viewer: %.300s", path, secret, text)
				}
			}
		}
		g := cluster.Ask[apiquery.Gangs](t, viewer, apiquery.PathGangs)
		if len(g.Items) > 0 || g.Hidden[apiquery.PhaseRunning] < 9 || g.Hidden[apiquery.PhaseWaiting] < 4 {
			t.Errorf("gangs: %d items, hidden %v", len(g.Items), g.Hidden)
		}
		if n := cluster.Ask[apiquery.Nodes](t, viewer, apiquery.PathNodes); len(n.Items) > 0 || n.Hidden < 10 {
			t.Errorf("nodes: %d items, %d hidden", len(n.Items), n.Hidden)
		}
	})
	t.Run("operator", func(t *testing.T) { // what is looked for above is there
		all := ""
		for _, path := range []string{apiquery.PathNodes, apiquery.PathQueues, apiquery.PathHistory, apiquery.PathGangs, apiquery.PathTimeline} {
			text := operator.Do(t, http.MethodGet, path, nil).Text
			for _, name := range []string{"asecret", "bsecret"} {
				if !strings.Contains(text, name) {
					t.Errorf("%s does not show %q to an operator", path, name)
				}
			}
			all += text
		}
		for _, name := range []string{`"bsecret-victim"`, `"asecret-victim"`, "for team-a/asecret-urgent", "for team-b/bsecret-urgent"} {
			if !strings.Contains(all, name) {
				t.Errorf("no answer has %s", name)
			}
		}
	})
}

// TestForeignQueue: a tenant that names a queue which does not take its pods learns nothing
// of it.
func TestForeignQueue(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	w.pod("team-c", "curious", 1, cluster.Queue("bsecret-queue"))
	mallory := w.as("team-c/mallory")
	w.Eventually("the pod is refused", func() (bool, string) {
		g := cluster.Ask[apiquery.Gangs](t, mallory, apiquery.PathGangs)
		return len(g.Items) == 1 && g.Items[0].Reason != nil && g.Items[0].Reason.Code == "QueueForbidden", fmt.Sprintf("%+v", g.Items)
	})
	for _, q := range cluster.Ask[apiquery.Queues](t, mallory, apiquery.PathQueues).Items {
		if q.Name == "bsecret-queue" {
			t.Errorf("queues: %+v", q)
		}
	}
	unanswered(t, mallory, apiquery.PathHistory+"?queue=bsecret-queue", http.StatusNotFound)
	if why := cluster.Ask[apiquery.Why](t, mallory, apiquery.PathWhy+"?namespace=team-c&name=curious"); why.Queue != nil {
		t.Errorf("why: %+v", why.Queue)
	}
}

// seesOwn checks that a tenant's answers have their own names, and sums of the rest.
func (w *world) seesOwn(t *testing.T, a cluster.Asker, namespace, own string) {
	t.Helper()
	g := cluster.Ask[apiquery.Gangs](t, a, apiquery.PathGangs)
	var last *apiquery.Gang
	for i := range g.Items {
		if g.Items[i].Phase == apiquery.PhaseWaiting {
			last = &g.Items[i]
		}
	}
	if last == nil || g.Hidden[apiquery.PhaseRunning] == 0 || g.Hidden[apiquery.PhaseWaiting] == 0 {
		t.Fatalf("gangs: %+v", g)
	}
	if last.Position < 3 { // at least one of the other tenant's is before it
		t.Errorf("position of %s: %d", last.Name, last.Position)
	}
	shared := 0
	for _, n := range cluster.Ask[apiquery.Nodes](t, a, apiquery.PathNodes).Items {
		for _, d := range n.Devices {
			for _, h := range d.Holders {
				if h.Pod.Namespace != namespace {
					t.Errorf("%s shows a holder of %s", n.Name, h.Pod.Namespace)
				}
			}
			shared += d.Hidden
		}
	}
	if shared == 0 {
		t.Error("no device has a hidden holder")
	}
	queues := cluster.Ask[apiquery.Queues](t, a, apiquery.PathQueues)
	seen := map[string]bool{}
	for _, q := range queues.Items {
		seen[q.Name] = true
	}
	if !seen[own+"-queue"] || !seen["default"] || queues.Hidden == 0 {
		t.Errorf("queues: %v, %d hidden", seen, queues.Hidden)
	}
	w.Eventually("a sample of the queue", func() (bool, string) {
		h := cluster.Ask[apiquery.History](t, a, apiquery.PathHistory+"?queue="+own+"-queue")
		return len(h.Queues) == 1 && len(h.Queues[0].At) > 0, fmt.Sprintf("%+v", h)
	})
	tl := cluster.Ask[apiquery.Timeline](t, a, apiquery.PathTimeline)
	evicted := false
	for _, e := range tl.Items {
		evicted = evicted || e.Kind == apiquery.EventEvicted && e.Gang.Name == own+"-victim" && e.For == nil && strings.Contains(e.Text, "another namespace")
	}
	if !evicted || tl.Hidden == 0 {
		t.Errorf("timeline: no eviction of %s-victim, or nothing hidden (%d): %+v", own, tl.Hidden, tl.Items)
	}
	one := cluster.Ask[apiquery.Gangs](t, a, apiquery.PathGangs+"?namespace="+namespace+"&name="+own+"-run-0")
	if len(one.Items) != 1 || len(one.Items[0].Members) != 1 || one.Items[0].Members[0].State != "bound" || len(one.Items[0].Members[0].Devices) != 4 {
		t.Errorf("one gang: %+v", one.Items)
	}
}

// greedy is a pod that would have others evicted, of both tenants.
const greedy = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greedy"}, "spec": {"schedulerName": "gpu-scheduler", "priorityClassName": "high", "priority": 1000,
"containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}`

// questionsOf are all questions, with a name of the caller's own where one is needed.
func questionsOf(namespace, own string) (out []string) {
	out = append(out, every...)
	for _, name := range []string{own + "-run-0", own + "-wait-1", own + "-victim", own + "-urgent"} {
		about := "?namespace=" + namespace + "&name=" + name
		out = append(out, apiquery.PathGangs+about, apiquery.PathWhy+about, apiquery.PathExplain+about)
	}
	return append(out, apiquery.PathWhatIf+"?namespace="+namespace, apiquery.PathGangs+"?phase=Waiting", apiquery.PathGangs+"?limit=1", apiquery.PathNodes+"?since=1", apiquery.PathTimeline+"?limit=5")
}

// bound waits until a namespace has so many pods with a node.
func (w *world) bound(namespace string, want int) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d bound pods in %s", want, namespace), func() (bool, string) {
		n := 0
		for _, p := range w.Within(namespace).Pods("") {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		return n == want, fmt.Sprint(n)
	})
}
