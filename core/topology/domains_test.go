package topology_test

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

func TestLevelsValidateNamesTheField(t *testing.T) {
	tests := []struct {
		name   string
		levels topology.Levels
		want   string
	}{
		{"defaults", topology.DefaultLevels(), ""},
		{"none", nil, ""},
		{"no name", topology.Levels{{"", "a"}}, "[0].name: empty"},
		{"no label", topology.Levels{{"a", "x"}, {"b", ""}}, "[1].label: empty"},
		{"same name", topology.Levels{{"a", "x"}, {"a", "y"}}, `[1].name: "a" is also the name of [0]`},
		{"same label", topology.Levels{{"a", "x"}, {"b", "x"}}, `[1].label: "x" is also the label of [0]`},
		{"reserved", topology.Levels{{"nvlink", "x"}}, `[0].name: "nvlink" is a word for devices of one node`},
		{"capital", topology.Levels{{"Rack", "x"}}, `[0].name: "Rack" may hold`},
		{"too many", make(topology.Levels, 9), ": 9 levels, at most 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.levels.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPath(t *testing.T) {
	levels := topology.Levels{{"zone", "z"}, {"block", "b"}, {"rack", "r"}}
	if got := levels.Path(map[string]string{"z": "eu", "r": "7", "b": ""}); !slices.Equal(got, []string{"eu", "", "7"}) {
		t.Errorf("got %q", got)
	}
	if got := levels.Path(map[string]string{"other": "x"}); got != nil {
		t.Errorf("no label: got %q", got)
	}
	if l, ok := levels.Find("rack"); !ok || l != (model.Level{Name: "rack", Label: "r", Depth: 2}) {
		t.Errorf("got %+v, %v", l, ok)
	}
}

// tightest is Enough for all levels, the innermost first, out to a widest one: the order
// in which core/gang tries domains.
func tightest(d *topology.Domains, widest, resource int, need int64) iter.Seq[topology.Domain] {
	return func(yield func(topology.Domain) bool) {
		for depth := d.Depths() - 1; depth >= max(widest, 0); depth-- {
			for dom := range d.Enough(depth, resource, need) {
				if !yield(dom) {
					return
				}
			}
		}
	}
}

// TestTightest: the tightest domain first, and of equals the one with the least
// headroom.
func TestTightest(t *testing.T) {
	d := topology.NewDomains(1)
	for _, n := range []struct {
		id, path string
		free     int64
	}{{"a", "z/r1", 8}, {"b", "z/r1", 8}, {"c", "z/r2", 8}, {"d", "z/r2", 4}, {"e", "z/", 8}, {"f", "y/r1", 2}} {
		d.Set(model.NodeID(n.id), strings.Split(n.path, "/"))
		d.SetFree(model.NodeID(n.id), 0, n.free)
	}
	get := func(widest int, need int64) string {
		var out []string
		for dom := range tightest(d, widest, 0, need) {
			out = append(out, dom.Path)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		widest int
		need   int64
		want   string
	}{{0, 12, "z/r2 z/r1 z"}, {1, 12, "z/r2 z/r1"}, {0, 16, "z/r1 z"}, {0, 36, "z"}, {0, 37, ""}, {0, 1, "y/r1 z/r2 z/r1 y z"}} {
		if got := get(tt.widest, tt.need); got != tt.want {
			t.Errorf("%d within depth %d: got %q, want %q", tt.need, tt.widest, got, tt.want)
		}
	}
	// Racks of one number in two zones have nothing in common.
	if dom, ok := d.Common("a", "f"); ok {
		t.Errorf("a and f share %v", dom)
	}
	if dom, ok := d.Common("a", "c"); !ok || dom.Path != "z" {
		t.Errorf("a and c: got %v, %v", dom, ok)
	}
}

// naive is the straightforward second implementation: a list of nodes.
type naive map[model.NodeID]*naiveNode

type naiveNode struct {
	path []string
	free [2]int64
}

func (n naive) of(id model.NodeID, depth int) (topology.Domain, bool) {
	node := n[id]
	if node == nil || depth >= len(node.path) || node.path[depth] == "" {
		return topology.Domain{}, false
	}
	return topology.Domain{Depth: depth, Path: strings.Join(node.path[:depth+1], "/")}, true
}

// TestDomainsAreWhatNodesSay: after any history every answer is that of a look at
// all nodes; and when all nodes have left, nothing is left.
func TestDomainsAreWhatNodesSay(t *testing.T) {
	const depths = 3
	rapid.Check(t, func(t *rapid.T) {
		d, all := topology.NewDomains(2), naive{}
		ids := []model.NodeID{"a", "b", "c", "d", "e", "f"}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			id := rapid.SampledFrom(ids).Draw(t, "node")
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				d.Remove(id)
				delete(all, id)
			case 1, 2:
				path := rapid.SliceOfN(rapid.SampledFrom([]string{"", "1", "12", "1-"}), 0, depths).Draw(t, "path")
				d.Set(id, path)
				if all[id] == nil {
					all[id] = &naiveNode{}
				}
				all[id].path = path
			default:
				r, amount := rapid.IntRange(0, 1).Draw(t, "resource"), rapid.Int64Range(-1, 8).Draw(t, "amount")
				d.SetFree(id, r, amount)
				if all[id] != nil {
					all[id].free[r] = amount
				}
			}
			check(t, d, all, depths, ids)
		}
		for _, id := range ids {
			d.Remove(id)
			delete(all, id)
		}
		check(t, d, all, depths, ids)
	})
}

func check(t *rapid.T, d *topology.Domains, all naive, depths int, ids []model.NodeID) {
	type sums struct {
		nodes []model.NodeID
		free  [2]int64
	}
	for depth := range depths {
		want := map[topology.Domain]*sums{}
		for _, id := range ids {
			dom, ok := all.of(id, depth)
			if got, is := d.Of(id, depth); is != ok || got != dom {
				t.Fatalf("node %s at %d: got %v, %v, want %v, %v", id, depth, got, is, dom, ok)
			}
			if !ok {
				continue
			}
			if want[dom] == nil {
				want[dom] = &sums{}
			}
			want[dom].nodes = append(want[dom].nodes, id)
			for r, amount := range all[id].free {
				want[dom].free[r] += amount
			}
		}
		var domains []topology.Domain
		for dom, s := range want {
			domains = append(domains, dom)
			if got := d.Nodes(dom); !slices.Equal(got, s.nodes) {
				t.Fatalf("%v: nodes %v, want %v", dom, got, s.nodes)
			}
			if got := [2]int64{d.Free(dom, 0), d.Free(dom, 1)}; got != s.free {
				t.Fatalf("%v: free %v, want %v", dom, got, s.free)
			}
		}
		slices.SortFunc(domains, func(a, b topology.Domain) int { return strings.Compare(a.Path, b.Path) })
		if got := d.At(depth); !slices.Equal(got, domains) {
			t.Fatalf("at %d: %v, want %v", depth, got, domains)
		}
		for r := range 2 {
			need := rapid.Int64Range(0, 20).Draw(t, "need")
			enough := slices.DeleteFunc(slices.Clone(domains), func(dom topology.Domain) bool { return want[dom].free[r] < need })
			slices.SortStableFunc(enough, func(a, b topology.Domain) int { return cmp.Compare(want[a].free[r], want[b].free[r]) })
			if got := slices.Collect(d.Enough(depth, r, need)); !slices.Equal(got, enough) {
				t.Fatalf("%d of %d at %d: %v, want %v", need, r, depth, got, enough)
			}
		}
	}
	some := rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(t, "some")
	var common topology.Domain
	found := false
	for depth := range depths {
		doms := map[string]bool{}
		for i, id := range some {
			dom, ok := all.of(id, depth)
			if !ok {
				dom.Path = fmt.Sprint("nowhere", i)
			}
			doms[dom.Path] = ok
		}
		for path, ok := range doms {
			if ok && len(doms) == 1 {
				common, found = topology.Domain{Depth: depth, Path: path}, true
			}
		}
	}
	if got, ok := d.Common(some...); ok != found || got != common {
		t.Fatalf("common of %v: got %v, %v, want %v, %v", some, got, ok, common, found)
	}
}
