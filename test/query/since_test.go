package query

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/fleet"
)

// picture is what a caller knows of nodes who only ever asks what changed.
type picture struct {
	version uint64
	nodes   map[string]apiquery.Node
	removed map[string]bool
	// changed are the nodes of partial answers, since it was cleared.
	changed map[string]bool
}

func (p *picture) ask(t *testing.T, a *asker) {
	t.Helper()
	n := get[apiquery.Nodes](t, a, fmt.Sprintf("%s?since=%d", apiquery.PathNodes, p.version))
	if p.version > 0 && !n.Partial {
		t.Fatalf("since %d: all nodes, version %d", p.version, n.Version)
	}
	p.version = n.Version
	for _, node := range n.Items {
		p.nodes[node.Name], p.changed[node.Name] = node, true
	}
	for _, name := range n.Removed {
		delete(p.nodes, name)
		p.removed[name] = true
	}
}

// TestNodesSince: who asks what changed gets only that, and has the same picture in the end.
func TestNodesSince(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	operator := w.as(t, "ops/operator")
	p := &picture{nodes: map[string]apiquery.Node{}, removed: map[string]bool{}, changed: map[string]bool{}}
	p.ask(t, operator)
	if len(p.nodes) < 10 {
		t.Fatalf("%d nodes", len(p.nodes))
	}
	clear(p.changed)
	on := func(node string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.NodeSelector = map[string]string{fleet.LabelPool: "x", v1.LabelHostname: node}
		}
	}
	for i := range 3 {
		w.pod(t, "default", fmt.Sprintf("since-%d", i), 1, on("x-1"))
	}
	eventually(t, "three pods on x-1", func() (bool, string) {
		p.ask(t, operator)
		holders := 0
		for _, d := range p.nodes["x-1"].Devices {
			holders += len(d.Holders)
		}
		return holders == 3, fmt.Sprint(holders)
	})
	if p.changed["x-0"] || p.changed["x-2"] || !p.changed["x-1"] {
		t.Errorf("changed: %v, want x-1 of pool x alone", p.changed)
	}
	if err := w.Client.CoreV1().Nodes().Delete(t.Context(), "x-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "x-3 is gone", func() (bool, string) {
		p.ask(t, operator)
		_, there := p.nodes["x-3"]
		return !there && p.removed["x-3"], fmt.Sprint(there)
	})
	// Other tests change other nodes meanwhile: the pictures are the same once nothing does.
	eventually(t, "the same picture", func() (bool, string) {
		p.ask(t, operator)
		all := get[apiquery.Nodes](t, operator, apiquery.PathNodes)
		names := []string{}
		for _, node := range all.Items {
			names = append(names, node.Name)
			if !reflect.DeepEqual(node, p.nodes[node.Name]) {
				return false, node.Name + " differs"
			}
		}
		return len(names) == len(p.nodes) && !all.Partial && slices.IsSorted(names), fmt.Sprintf("%d nodes, %d by changes", len(names), len(p.nodes))
	})
	// A version of nobody's gets all.
	for _, since := range []string{"1", "18446744073709551615"} {
		if n := get[apiquery.Nodes](t, operator, apiquery.PathNodes+"?since="+since); n.Partial || len(n.Items) != len(p.nodes) {
			t.Errorf("since %s: partial %v, %d nodes", since, n.Partial, len(n.Items))
		}
	}
}

// TestPages: pages of one gang make up the whole list.
func TestPages(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	operator := w.as(t, "ops/operator")
	for i := range 5 {
		w.pod(t, "default", fmt.Sprintf("page-%d", i), 99) // nobody has as many
	}
	eventually(t, "five gangs wait", func() (bool, string) {
		g := get[apiquery.Gangs](t, operator, apiquery.PathGangs+"?namespace=default&phase=Waiting")
		return len(g.Items) == 5 && g.Continue == "", fmt.Sprint(len(g.Items))
	})
	seen, from := []string{}, ""
	for range 10 {
		g := get[apiquery.Gangs](t, operator, apiquery.PathGangs+"?namespace=default&phase=Waiting&limit=2&continue="+from)
		for _, item := range g.Items {
			seen = append(seen, item.Name)
		}
		if from = g.Continue; from == "" {
			break
		}
	}
	slices.Sort(seen)
	if want := []string{"page-0", "page-1", "page-2", "page-3", "page-4"}; !slices.Equal(seen, want) {
		t.Errorf("pages: %v, want %v", seen, want)
	}
}
