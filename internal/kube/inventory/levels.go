package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// domains is what the cluster's tree of domains is made of.
type domains struct {
	levels topology.Levels
	tiers  *dialect.Tiers
	// more: some levels are not from the configuration.
	more bool
}

// Problem is what is wrong with an object that describes the network; nil: nothing.
type Problem struct {
	About *v1.ObjectReference
	Err   error
}

// Levels are the levels of domains, outermost first; not to be changed.
func (i *Inventory) Levels() topology.Levels { return i.domains.Load().levels }

// SetLevels sets the levels that the configuration lists, which are the default ones
// before. They must be valid, and every node has to be described anew.
func (i *Inventory) SetLevels(levels topology.Levels) {
	if levels == nil {
		levels = topology.Levels{} // none, which is not the default
	}
	i.configured.Store(&levels)
	i.Refresh()
}

// Derived says whether HyperNodes or Topologies add levels: then the order of levels
// depends on the nodes.
func (i *Inventory) Derived() bool { return i.domains.Load().more }

// Refresh reads HyperNodes and Topologies anew. Levels that they add come beside those of
// the configuration, ordered as the nodes' domains are nested. changed: nodes and what pods
// ask for have to be read anew. Cost: all nodes, if there are such objects. Not to be called
// concurrently.
func (i *Inventory) Refresh() (changed bool, problems []Problem) {
	before := i.domains.Load()
	now := &domains{levels: *i.configured.Load()}
	told := map[types.UID]int{}
	about := func(kind schema.GroupVersionResource, o *unstructured.Unstructured, err error) {
		if at, ok := told[o.GetUID()]; ok { // the first is told
			problems[at].Err = cmp.Or(problems[at].Err, err)
			return
		}
		told[o.GetUID()] = len(problems)
		problems = append(problems, Problem{&v1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}, err})
	}
	var chains []topology.Levels
	listed := map[string]func(error){} // by label, who listed the level
	for _, kind := range dialect.Topologies() {
		objects := i.networks[kind].All()
		slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		if kind == dialect.HyperNodes {
			tiers, bad := dialect.ReadTiers(objects)
			now.tiers = tiers
			chains = append(chains, tiers.Levels())
			for _, o := range objects {
				about(kind, o, bad[o.GetName()])
			}
			continue
		}
		for _, o := range objects {
			chain, err := dialect.TopologyLevels(o)
			about(kind, o, err)
			chains = append(chains, chain)
			for _, l := range chain {
				listed[l.Label] = func(err error) { about(kind, o, err) }
			}
		}
	}
	now.merge(i, chains, listed)
	i.domains.Store(now)
	return !slices.Equal(before.levels, now.levels) || !reflect.DeepEqual(before.tiers, now.tiers), problems
}

// merge adds the levels of objects to those of the configuration.
func (d *domains) merge(i *Inventory, chains []topology.Levels, listed map[string]func(error)) {
	chains = slices.DeleteFunc(chains, func(c topology.Levels) bool { return len(c) == 0 })
	if len(chains) == 0 {
		return
	}
	nodes, _ := i.nodes.List(labels.Everything()) // the store knows no error
	facts := dialect.Facts{Tiers: d.tiers}
	values := make([]func(string) string, len(nodes))
	for n, node := range nodes {
		values[n] = facts.Value(node)
	}
	merged, left := d.levels.With(chains, len(nodes), func(n int, label string) string { return values[n](label) })
	d.more = len(merged) > len(d.levels) || len(d.tiers.Levels()) > 0
	d.levels = merged
	dropped := map[string]bool{}
	for _, l := range left {
		dropped[l.Label] = true
	}
	for _, label := range slices.Sorted(maps.Keys(dropped)) {
		if say := listed[label]; say != nil {
			say(fmt.Errorf("spec.levels: no room for %s: a cluster has at most %d levels of domains", label, topology.MaxLevels))
		}
	}
}
