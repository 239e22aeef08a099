package demand

import (
	"fmt"
	"testing"

	api "github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/topology"
)

// TestLabels: the labels of a domain's nodes; tiers of HyperNodes are none.
func TestLabels(t *testing.T) {
	levels := topology.Levels{
		{Name: "tier-2", Label: "topology.volcano.sh/tier-2"}, {Name: "zone", Label: "topology.kubernetes.io/zone"},
		{Name: "tier-1", Label: "topology.volcano.sh/tier-1"}, {Name: "rack", Label: "topology.kubernetes.io/rack"},
	}
	for want, values := range map[string][]string{
		"map[]":                              {"s2"},
		"map[topology.kubernetes.io/zone:z]": {"s2", "z", "s1"},
		"map[topology.kubernetes.io/rack:r topology.kubernetes.io/zone:z]": {"s2", "z", "s1", "r", "more"},
	} {
		if got := fmt.Sprint(labelsOf(levels, values)); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
}

// TestDemandFair: a namespace with many gangs does not crowd out the gang of another.
func TestDemandFair(t *testing.T) {
	d := Demands{gangs: map[engine.ID]*wanting{}}
	add := func(namespace, name string, members int, submitted int64) {
		g := api.Gang{Name: namespace + "/" + name}
		for range members {
			g.Members = append(g.Members, api.Member{Namespace: namespace})
		}
		d.gangs[engine.ID(g.Name)] = &wanting{gang: g, submitted: submitted}
	}
	for i := range 10 {
		add("greedy", fmt.Sprint("g", i), 10, int64(i))
	}
	add("modest", "m", 5, 100)
	add("huge", "h", 1000, 0)
	var got []string
	for _, g := range d.fair(30) {
		got = append(got, g.Name)
	}
	if fmt.Sprint(got) != "[greedy/g0 modest/m greedy/g1]" {
		t.Errorf("asked for %v", got)
	}
}
