package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/topology"
)

// table is nodes as rows of label values.
func table(rows ...map[string]string) (int, func(int, string) string) {
	return len(rows), func(n int, label string) string { return rows[n][label] }
}

func chain(labels ...string) (out topology.Levels) {
	for _, l := range labels {
		out = append(out, topology.Level{Name: l, Label: l})
	}
	return out
}

// TestWith: new levels go where their domains are nested.
func TestWith(t *testing.T) {
	n, value := table(
		map[string]string{"zone": "a", "rack": "1", "spine": "p", "leaf": "x", "pair": "i"},
		map[string]string{"zone": "a", "rack": "1", "spine": "p", "leaf": "x", "pair": "j"},
		map[string]string{"zone": "a", "rack": "2", "spine": "p", "leaf": "y", "pair": "k"},
		map[string]string{"zone": "a", "rack": "3", "spine": "q", "leaf": "z"},
		map[string]string{"zone": "b", "rack": "1", "spine": "r", "leaf": "w"},
	)
	for name, tt := range map[string]struct {
		base   topology.Levels
		chains []topology.Levels
		want   string
		left   int
	}{
		"inside and between": {chain("zone", "rack"), []topology.Levels{chain("spine", "leaf")}, "zone spine rack leaf", 0},
		"around":             {chain("leaf"), []topology.Levels{chain("zone")}, "zone leaf", 0},
		"innermost":          {chain("zone", "rack"), []topology.Levels{chain("pair")}, "zone rack pair", 0},
		"known ones stay":    {chain("zone", "rack"), []topology.Levels{chain("zone", "leaf", "rack")}, "zone rack leaf", 0},
		"no nodes have it":   {chain("zone"), []topology.Levels{chain("x", "y")}, "x y zone", 0},
		"nothing new":        {chain("zone"), nil, "zone", 0},
		"too many":           {chain("a", "b", "c", "d", "e", "f", "g"), []topology.Levels{chain("zone", "rack")}, "zone a b c d e f g", 1},
	} {
		got, left := tt.base.With(tt.chains, n, value)
		if text := strings.Join(got.Names(), " "); text != tt.want || len(left) != tt.left {
			t.Errorf("%s: got %s, left %v, want %s", name, text, left, tt.want)
		}
	}
	named, _ := chain("rack").With([]topology.Levels{{{Name: "rack", Label: "zone"}, {Name: "numa", Label: "x"}, {Name: "", Label: "y"}}}, n, value)
	if err := named.Validate(); err != nil || len(named) != 4 {
		t.Errorf("got %v, %v", named, err)
	}
}

// TestWithAnyLevels: whatever is merged is valid, keeps the order of the base and of every
// chain as far as it is not there already, and is the same for the same nodes in any order.
func TestWithAnyLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := []string{"a", "b", "c", "d", "e", "f"}
		draw := func(what string) topology.Levels {
			return chain(rapid.Permutation(labels).Draw(t, what)[:rapid.IntRange(0, 4).Draw(t, what+" length")]...)
		}
		base := draw("base")
		var chains []topology.Levels
		for i := range rapid.IntRange(0, 3).Draw(t, "chains") {
			chains = append(chains, draw(fmt.Sprint("chain ", i)))
		}
		rows := make([]map[string]string, rapid.IntRange(0, 6).Draw(t, "nodes"))
		for i := range rows {
			rows[i] = map[string]string{}
			for _, l := range labels {
				rows[i][l] = rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, fmt.Sprint(l, i))
			}
		}
		n, value := table(rows...)
		got, left := base.With(chains, n, value)
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		place := func(label string) int {
			return slices.IndexFunc(got, func(l topology.Level) bool { return l.Label == label })
		}
		for i := 1; i < len(base); i++ {
			if place(base[i-1].Label) > place(base[i].Label) {
				t.Fatalf("base %v became %v", base.Names(), got.Names())
			}
		}
		for _, c := range chains {
			for _, l := range c {
				if place(l.Label) < 0 && !slices.Contains(left, l) {
					t.Fatalf("%s is lost", l.Label)
				}
			}
		}
		slices.Reverse(rows)
		m, again := table(rows...)
		if other, _ := base.With(chains, m, again); !slices.Equal(got, other) {
			t.Fatalf("%v, and %v for the same nodes", got.Names(), other.Names())
		}
	})
}
