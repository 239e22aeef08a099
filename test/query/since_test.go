package query

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/cluster"
)

// picture is what a caller knows of nodes that only asks what changed.
type picture struct {
	version uint64
	nodes   map[string]apiquery.Node
	removed map[string]bool
	// changed are the nodes of partial answers, since it was cleared.
	changed map[string]bool
}

func (p *picture) ask(t *testing.T, a cluster.Asker) {
	t.Helper()
	n := cluster.Ask[apiquery.Nodes](t, a, fmt.Sprintf("%s?since=%d", apiquery.PathNodes, p.version))
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

// TestNodesSince: a caller that asks what changed gets only that, and has the same picture in
// the end.
func TestNodesSince(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	operator := w.as("ops/operator")
	p := &picture{nodes: map[string]apiquery.Node{}, removed: map[string]bool{}, changed: map[string]bool{}}
	p.ask(t, operator)
	if len(p.nodes) < 10 {
		t.Fatalf("%d nodes", len(p.nodes))
	}
	clear(p.changed)
	for i := range 3 {
		w.pod("default", fmt.Sprintf("since-%d", i), 1, cluster.On(fleet.LabelPool, "x"), cluster.On(v1.LabelHostname, "x-1"))
	}
	w.Eventually("three pods on x-1", func() (bool, string) {
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
	w.Remove(cluster.Nodes, "x-3")
	w.Eventually("x-3 is gone", func() (bool, string) {
		p.ask(t, operator)
		_, there := p.nodes["x-3"]
		return !there && p.removed["x-3"], fmt.Sprint(there)
	})
	// Other tests change other nodes meanwhile: the pictures are the same once nothing does.
	w.Eventually("the same picture", func() (bool, string) {
		p.ask(t, operator)
		all := cluster.Ask[apiquery.Nodes](t, operator, apiquery.PathNodes)
		names := []string{}
		for _, node := range all.Items {
			names = append(names, node.Name)
			if !reflect.DeepEqual(node, p.nodes[node.Name]) {
				return false, node.Name + " differs"
			}
		}
		return len(names) == len(p.nodes) && !all.Partial && slices.IsSorted(names), fmt.Sprintf("%d nodes, %d by changes", len(names), len(p.nodes))
	})
	// A version that no answer had gets all.
	for _, since := range []string{"1", "18446744073709551615"} {
		if n := cluster.Ask[apiquery.Nodes](t, operator, apiquery.PathNodes+"?since="+since); n.Partial || len(n.Items) != len(p.nodes) {
			t.Errorf("since %s: partial %v, %d nodes", since, n.Partial, len(n.Items))
		}
	}
}

// TestPages: pages of one gang make up the whole list.
func TestPages(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	operator := w.as("ops/operator")
	for i := range 5 {
		w.pod("default", fmt.Sprintf("page-%d", i), 99) // no node has as many
	}
	w.Eventually("five gangs wait", func() (bool, string) {
		g := cluster.Ask[apiquery.Gangs](t, operator, apiquery.PathGangs+"?namespace=default&phase=Waiting")
		return len(g.Items) == 5 && g.Continue == "", fmt.Sprint(len(g.Items))
	})
	seen, from := []string{}, ""
	for range 10 {
		g := cluster.Ask[apiquery.Gangs](t, operator, apiquery.PathGangs+"?namespace=default&phase=Waiting&limit=2&continue="+from)
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
