package query

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// rights are a caller's.
type rights struct {
	namespaces    []string
	nodes, queues bool
}

func (r rights) User() string              { return "bob" }
func (r rights) MayListPods(n string) bool { return slices.Contains(r.namespaces, n) }
func (r rights) MayListNodes() bool        { return r.nodes }
func (r rights) MayListQueues() bool       { return r.queues }

var spaces = []string{"ns-red", "ns-green", "ns-blue"}

// secretOf is what all names of a namespace have in them.
func secretOf(namespace string) string { return "secret-of-" + namespace }

// drawRights draws what a caller may list, and the words that their answers must not have.
func drawRights(t *rapid.T) (r rights, hidden []string) {
	for _, n := range spaces {
		if rapid.Bool().Draw(t, "may list "+n) {
			r.namespaces = append(r.namespaces, n)
		} else {
			hidden = append(hidden, n, secretOf(n))
		}
	}
	r.nodes, r.queues = rapid.Bool().Draw(t, "nodes"), rapid.Bool().Draw(t, "queues")
	if !r.nodes {
		hidden = append(hidden, "node-")
	}
	return r, hidden
}

func drawGangRef(t *rapid.T) apiquery.GangRef {
	n := rapid.SampledFrom(spaces).Draw(t, "namespace")
	return apiquery.GangRef{Namespace: n, Name: fmt.Sprintf("%s-gang-%d", secretOf(n), rapid.IntRange(0, 3).Draw(t, "gang"))}
}

func drawHolder(t *rapid.T) apiquery.Holder {
	g := drawGangRef(t)
	return apiquery.Holder{Gang: g, Pod: apiquery.PodRef{Namespace: g.Namespace, Name: g.Name + "-0", UID: secretOf(g.Namespace) + "-uid"}, Queue: secretOf(g.Namespace) + "-queue", Milli: 100}
}

// noneOf fails when an answer has a word that its caller must not see.
func noneOf(t *rapid.T, answer any, hidden []string) {
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range hidden {
		if i := strings.Index(string(text), word); i >= 0 {
			t.Fatalf("%q is shown: %s", word, text[max(0, i-100):min(len(text), i+50)])
		}
	}
}

// unchanged fails when a filter changed what all callers share.
func unchanged[A any](t *rapid.T, shared A, filter func(A)) {
	before, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	filter(shared)
	if after, _ := json.Marshal(shared); string(after) != string(before) {
		t.Fatalf("the shared answer was changed:\n%s\n%s", before, after)
	}
}

func TestFilterNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, hidden := drawRights(t)
		all := apiquery.Nodes{Version: 7}
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := apiquery.Node{Name: fmt.Sprint("node-", i)}
			if rapid.Bool().Draw(t, "kept") {
				g := drawGangRef(t)
				n.Kept, n.KeptFor = true, &g
			}
			for range rapid.IntRange(0, 3).Draw(t, "devices") {
				n.Devices = append(n.Devices, apiquery.Device{Holders: rapid.SliceOfN(rapid.Custom(drawHolder), 0, 3).Draw(t, "holders")})
			}
			all.Items = append(all.Items, n)
		}
		all.Removed = []string{"node-9"}
		unchanged(t, all, func(all apiquery.Nodes) {
			got := filterNodes(all, r)
			noneOf(t, got, hidden)
			if !r.nodes {
				if got.Hidden != len(all.Items) {
					t.Fatalf("%d hidden of %d", got.Hidden, len(all.Items))
				}
				return
			}
			for i := range all.Items { // nothing is lost: what is not shown is counted
				if got.Items[i].Kept != all.Items[i].Kept || len(got.Items[i].Devices) != len(all.Items[i].Devices) {
					t.Fatalf("%+v of %+v", got.Items[i], all.Items[i])
				}
				for j, d := range got.Items[i].Devices {
					if len(d.Holders)+d.Hidden != len(all.Items[i].Devices[j].Holders) {
						t.Fatalf("%+v of %+v", d, all.Items[i].Devices[j])
					}
				}
			}
		})
	})
}

func TestFilterTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, hidden := drawRights(t)
		all := apiquery.Timeline{Version: 3}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			g := drawGangRef(t)
			e := apiquery.Event{Kind: rapid.SampledFrom([]string{apiquery.EventEvicted, apiquery.EventPlaced}).Draw(t, "kind"), Gang: g, Queue: secretOf(g.Namespace) + "-queue", Nodes: []string{"node-1"}, Text: "1 pod"}
			if e.Kind == apiquery.EventEvicted && rapid.Bool().Draw(t, "for") {
				other := drawGangRef(t)
				e.For = &other
			}
			all.Items = append(all.Items, e)
		}
		unchanged(t, all, func(all apiquery.Timeline) {
			got := filterTimeline(all, r)
			noneOf(t, got, hidden)
			if len(got.Items)+got.Hidden != len(all.Items) {
				t.Fatalf("%d shown, %d hidden of %d", len(got.Items), got.Hidden, len(all.Items))
			}
			// A bound counts what the caller sees, the latest; what others did takes no place.
			most := rapid.IntRange(0, 6).Draw(t, "most")
			want := got.Items
			if most > 0 && len(want) > most {
				want = want[len(want)-most:]
			}
			if few := latest(got, most, true); !slices.EqualFunc(few.Items, want, func(a, b apiquery.Event) bool { return a.Gang == b.Gang && a.Text == b.Text }) || few.Lost != (len(want) < len(got.Items)) {
				t.Fatalf("at most %d: %+v of %+v", most, few, got)
			}
		})
	})
}

func TestFilterQueues(t *testing.T) {
	all := apiquery.Queues{Items: []apiquery.Queue{{Name: "root"}, {Name: "research", Parent: "root"}, {Name: "red", Parent: "research"}, {Name: "blue", Parent: "root"}}}
	namespaces := map[string][]string{"root": {"ns-red", "ns-blue"}, "research": {"ns-red"}, "red": {"ns-red"}, "blue": {"ns-blue"}}
	for _, c := range []struct {
		r    rights
		want []string
	}{
		{rights{}, nil},
		{rights{queues: true}, []string{"root", "research", "red", "blue"}},
		{rights{namespaces: []string{"ns-red"}}, []string{"root", "research", "red"}},
		{rights{namespaces: []string{"ns-blue"}}, []string{"root", "blue"}},
		{rights{namespaces: []string{"ns-green"}}, nil},
	} {
		got := filterQueues(all, visibleQueues(&all, namespaces, c.r))
		var names []string
		for _, q := range got.Items {
			names = append(names, q.Name)
		}
		if !slices.Equal(names, c.want) || got.Hidden != len(all.Items)-len(c.want) {
			t.Errorf("%+v: %v and %d hidden, want %v", c.r, names, got.Hidden, c.want)
		}
	}
}

// books is a source of gangs alone.
type books struct {
	Source
	gangs []apiquery.Gang
}

func (b *books) Gangs() (time.Time, []apiquery.Gang) { return time.Time{}, b.gangs }

// TestGangs: pages, filters and what is hidden, against a plain reading of the list.
func TestGangs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, hidden := drawRights(t)
		all := &books{}
		for i := range rapid.IntRange(0, 12).Draw(t, "gangs") {
			g := apiquery.Gang{GangRef: drawGangRef(t), Phase: rapid.SampledFrom(phases).Draw(t, "phase"), Queue: rapid.SampledFrom([]string{"q1", "q2"}).Draw(t, "queue"), Reserved: []string{"node-1"}}
			g.Name = fmt.Sprintf("%s-%d", g.Name, i)
			all.gangs = append(all.gangs, g)
		}
		s := &Server{source: all}
		params := map[string][]string{}
		phase, queue := "", ""
		if rapid.Bool().Draw(t, "by phase") {
			phase = rapid.SampledFrom(phases).Draw(t, "asked phase")
			params[apiquery.ParamPhase] = []string{phase}
		}
		if rapid.Bool().Draw(t, "by queue") {
			queue = rapid.SampledFrom([]string{"q1", "q2"}).Draw(t, "asked queue")
			params[apiquery.ParamQueue] = []string{queue}
		}
		params[apiquery.ParamLimit] = []string{fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "limit"))}
		var want, got []apiquery.GangRef
		counts := map[string]int{}
		for _, g := range all.gangs {
			switch {
			case phase != "" && g.Phase != phase:
			case !r.MayListPods(g.Namespace):
				counts[g.Phase]++
			case queue == "" || g.Queue == queue:
				want = append(want, g.GangRef)
			}
		}
		for pages := 0; ; pages++ {
			if pages > len(all.gangs) {
				t.Fatal("pages do not end")
			}
			answer, wrong := s.gangs(context.Background(), r, &Request{params: params})
			if wrong != nil {
				t.Fatal(wrong)
			}
			page := answer.(apiquery.Gangs)
			noneOf(t, page, hidden)
			if len(counts) > 0 && !reflect.DeepEqual(page.Hidden, counts) {
				t.Fatalf("hidden %v, want %v", page.Hidden, counts)
			}
			for _, g := range page.Items {
				got = append(got, g.GangRef)
			}
			if page.Continue == "" {
				break
			}
			params[apiquery.ParamContinue] = []string{page.Continue}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestContinue: a page goes on behind the last gang, wherever it is by now.
func TestContinue(t *testing.T) {
	list := func(names ...string) (out []apiquery.Gang) {
		for _, n := range names {
			out = append(out, apiquery.Gang{GangRef: apiquery.GangRef{Namespace: "x", Name: n}})
		}
		return out
	}
	before := list("a", "b", "c", "d")
	at, wrong := readPlace(placeOf(before, &before[1]))
	if wrong != nil {
		t.Fatal(wrong)
	}
	for _, c := range []struct {
		now  []apiquery.Gang
		want string
	}{
		{before, "c"},
		{list("new", "a", "b", "c"), "c"},
		{list("b", "c", "a"), "c"},
		{list("a", "c", "d"), "c"}, // b is gone
		{list("c"), ""},            // a is gone, too, and c may be missed
	} {
		got := ""
		if i := at.in(c.now, rights{namespaces: []string{"x"}}); i < len(c.now) {
			got = c.now[i].Name
		}
		if got != c.want {
			t.Errorf("goes on at %q, want %q", got, c.want)
		}
	}
	for _, text := range []string{"x", "AAAA", "MSA", "LTEgeC9h"} {
		if p, wrong := readPlace(text); wrong == nil && p.gang != "" {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

// TestContinueIsNoOracle: a token that names another tenant's gang answers the same whether
// there is such a gang or not.
func TestContinueIsNoOracle(t *testing.T) {
	gang := func(namespace, name string) apiquery.Gang {
		return apiquery.Gang{GangRef: apiquery.GangRef{Namespace: namespace, Name: name}, Phase: apiquery.PhaseRunning}
	}
	all := &books{gangs: []apiquery.Gang{gang("mine", "a"), gang("theirs", "secret"), gang("mine", "b"), gang("mine", "c")}}
	ask := func(guess string) []apiquery.Gang {
		token := base64.RawURLEncoding.EncodeToString([]byte("0 theirs/" + guess))
		answer, wrong := (&Server{source: all}).gangs(context.Background(), rights{namespaces: []string{"mine"}}, &Request{params: map[string][]string{apiquery.ParamContinue: {token}}})
		if wrong != nil {
			t.Fatal(wrong)
		}
		return answer.(apiquery.Gangs).Items
	}
	if right, wrong := ask("secret"), ask("guess"); !reflect.DeepEqual(right, wrong) || len(right) != 3 {
		t.Errorf("%v for a gang that is there, %v for one that is not", right, wrong)
	}
}

// TestFilterGangMembers: where a member will be is for those who may list nodes; where one
// is, its pod says. What callers share is not changed.
func TestFilterGangMembers(t *testing.T) {
	member := func(state string) apiquery.Member {
		return apiquery.Member{State: state, Node: "node-1", Devices: []apiquery.Part{{UUID: "GPU-1"}}}
	}
	g := apiquery.Gang{Members: []apiquery.Member{member("starting"), member("bound")}}
	got := filterGang(g, rights{})
	if m := got.Members[0]; m.Node != "" || m.Devices != nil {
		t.Errorf("starting: %+v", m)
	}
	if m := got.Members[1]; m.Node != "node-1" || len(m.Devices) != 1 {
		t.Errorf("bound: %+v", m)
	}
	if g.Members[0].Node == "" || filterGang(g, rights{nodes: true}).Members[0].Node == "" {
		t.Error("lost for those who may list nodes")
	}
}
