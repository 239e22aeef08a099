package inventory

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// TestRefresh: HyperNodes and Topologies add levels where the nodes nest them; what is
// wrong with one of them is told of it, and the others count.
func TestRefresh(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range 8 {
		labels := map[string]string{"topology.kubernetes.io/zone": fmt.Sprint("z", i/4), "topology.kubernetes.io/rack": fmt.Sprint("r", i), "example.com/row": fmt.Sprint("w", i/2)}
		if err := nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	from := watch.Sources{GPUNodes: cachetesting.NewFakeControllerSource(), Topologies: map[schema.GroupVersionResource]cache.ListerWatcher{}}
	sources := map[schema.GroupVersionResource]*cachetesting.FakeControllerSource{}
	for _, kind := range dialect.Topologies() {
		sources[kind] = cachetesting.NewFakeControllerSource()
		from.Topologies[kind] = sources[kind]
	}
	var told atomic.Int32
	i, err := New(corelisters.NewNodeLister(nodes), from, func(string) {}, func() { told.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	i.Run(t.Context())
	object := func(kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "uid": "uid-" + name}, "spec": spec}}
	}
	level := func(label string) any { return map[string]any{"nodeLabel": label} }
	member := func(node string) any {
		return map[string]any{"type": "Node", "selector": map[string]any{"exactMatch": map[string]any{"name": node}}}
	}
	sources[dialect.KAITopologies].Add(object("Topology", "rows", map[string]any{"levels": []any{level("example.com/row"), level("kubernetes.io/hostname")}}))
	sources[dialect.KAITopologies].Add(object("Topology", "broken", map[string]any{"levels": []any{map[string]any{}}}))
	sources[dialect.KueueTopologies].Add(object("Topology", "many", map[string]any{"levels": []any{level("a/1"), level("a/2"), level("a/3"), level("a/4")}}))
	sources[dialect.HyperNodes].Add(object("HyperNode", "s0", map[string]any{"tier": int64(1), "members": []any{member("n0"), member("n1"), member("n2")}}))
	for deadline := time.Now().Add(time.Minute); told.Load() < 4; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("told of %d objects", told.Load())
		}
	}
	changed, problems := i.Refresh()
	if !changed || !i.Derived() {
		t.Fatal("nothing changed")
	}
	got := i.Levels()
	if err := got.Validate(); err != nil || len(got) != topology.MaxLevels {
		t.Errorf("levels %v, %v", got.Names(), err)
	}
	order := strings.Join(slices.DeleteFunc(got.Names(), func(n string) bool { return !slices.Contains([]string{"zone", "tier-1", "row", "rack"}, n) }), " ")
	if order != "zone tier-1 row rack" && order != "zone row tier-1 rack" {
		t.Errorf("levels are ordered %s", order)
	}
	said := map[string]string{}
	for _, p := range problems {
		if p.Err != nil {
			said[p.About.Name] = p.Err.Error()
		}
	}
	if len(said) != 2 || !strings.Contains(said["broken"], "spec.levels[0].nodeLabel") || !strings.Contains(said["many"], "no room for a/") {
		t.Errorf("problems %v", said)
	}
	d, _ := i.Describe("n1")
	if at, _ := got.Find("tier-1"); d.Node.Domains[at.Depth] != "s0" {
		t.Errorf("n1 is in %v", d.Node.Domains)
	}
	if changed, _ := i.Refresh(); changed {
		t.Error("changed, though nothing is new")
	}
}
