package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

func TestTopologyAnnotation(t *testing.T) {
	rack := model.Level{Name: "rack", Label: "topology.kubernetes.io/rack", Depth: 2}
	tests := []struct {
		name, value     string
		require, prefer model.Closeness
		err             string
	}{
		{"link", "required=nvlink", model.Closeness{Bond: model.Bond{Link: model.NVLink}}, model.Closeness{}, ""},
		{"all kinds", "required=pix, required=numa ,required=rack,preferred=nvswitch", model.Closeness{Bond: model.Bond{Link: model.PIX, NUMA: true}, Level: rack},
			model.Closeness{Bond: model.Bond{Link: model.NVSwitch}}, ""},
		{"one node", "required=node,preferred=rack", model.Closeness{Level: model.Level{Name: "node", Depth: model.NodeDepth}}, model.Closeness{Level: rack}, ""},
		{"unknown level", "required=row", model.Closeness{}, model.Closeness{},
			`metadata.annotations[tangram.dev/topology]: "required=row": "row" is not one of zone, block, rack, clique, node, numa, phb, pxb, pix, nvlink, nvswitch`},
		{"unknown strength", "must=rack", model.Closeness{}, model.Closeness{}, `metadata.annotations[tangram.dev/topology]: "must=rack" is neither required=LEVEL nor preferred=LEVEL`},
		{"no word", "required", model.Closeness{}, model.Closeness{}, `metadata.annotations[tangram.dev/topology]: "required": "" is not one of zone,`},
		{"empty", "", model.Closeness{}, model.Closeness{}, `metadata.annotations[tangram.dev/topology]: "" has an empty entry`},
		{"two links", "required=pix,required=nvlink", model.Closeness{}, model.Closeness{}, `metadata.annotations[tangram.dev/topology]: "required=nvlink": a link is named already: pix`},
		{"two levels", "required=zone,required=node", model.Closeness{}, model.Closeness{}, `metadata.annotations[tangram.dev/topology]: "required=node": a level is named already: zone`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			amount := v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("2")}
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationTopology: tt.value}},
				Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: amount, Requests: amount}}}}}
			r, err := Request(pod)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || r.Require != tt.require || r.Prefer != tt.prefer {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestNUMABind(t *testing.T) {
	for value, want := range map[string]string{"true": "true", "false": "false", "yes": `metadata.annotations[nvidia.com/numa-bind]: "yes" is neither true nor false`} {
		amount := v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("2")}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationNUMABind: value}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: amount}}}}}
		r, err := Request(pod)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(r.Require.NUMA)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}

func TestDomainsOfNode(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"topology.kubernetes.io/zone": "eu", "row": "7"}}}
	for _, tt := range []struct {
		levels topology.Levels
		want   []string
	}{
		{nil, []string{"eu", "", "", ""}},
		{topology.Levels{{Name: "row", Label: "row"}}, []string{"7"}},
		{topology.Levels{}, nil},
	} {
		inv, err := Describe(node, Facts{Levels: tt.levels})
		if err != nil || !slices.Equal(inv.Domains, tt.want) {
			t.Errorf("%v: got %q, %v", tt.levels, inv.Domains, err)
		}
	}
}

// zones is a NodeResourceTopology with some GPUs on each NUMA node.
func zones(attributes map[string]string, gpus ...int64) *unstructured.Unstructured {
	object := map[string]any{"metadata": map[string]any{"name": "n"}}
	var list []any
	for _, key := range []string{"topologyManagerPolicy", "topologyManagerScope"} {
		if value, ok := attributes[key]; ok {
			list = append(list, map[string]any{"name": key, "value": value})
		}
	}
	object["attributes"] = list
	if old := attributes["old"]; old != "" {
		object["topologyPolicies"] = []any{old}
	}
	list = []any{map[string]any{"name": "core-0", "type": "Core"}}
	for _, n := range gpus {
		list = append(list, map[string]any{"type": "Node", "resources": []any{
			map[string]any{"name": "cpu", "capacity": "8"},
			map[string]any{"name": names.ResourceNVIDIA, "capacity": resource.NewQuantity(n, resource.DecimalSI).String()},
		}})
	}
	object["zones"] = list
	return &unstructured.Unstructured{Object: object}
}

func TestNodeTopology(t *testing.T) {
	policy := func(p, scope string) map[string]string {
		return map[string]string{"topologyManagerPolicy": p, "topologyManagerScope": scope}
	}
	unknown := model.NUMAUnknown
	tests := []struct {
		name         string
		object       *unstructured.Unstructured
		want         model.NUMAPolicy
		perContainer bool
		numa         [4]int
		err          string
	}{
		{"single", zones(policy("single-numa-node", "container"), 2, 2), model.OneNUMA, true, [4]int{0, 0, 1, 1}, ""},
		{"pod scope", zones(policy("restricted", "pod"), 1, 3), model.FewestNUMA, false, [4]int{0, 1, 1, 1}, ""},
		{"scope left out", zones(map[string]string{"topologyManagerPolicy": "restricted"}, 2, 2), model.FewestNUMA, true, [4]int{0, 0, 1, 1}, ""},
		{"best effort", zones(policy("best-effort", "pod"), 2, 2), model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, ""},
		{"one NUMA node", zones(policy("single-numa-node", "pod"), 4), model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, ""},
		{"other counts", zones(policy("single-numa-node", "pod"), 2, 4), model.OneNUMA, false, [4]int{unknown, unknown, unknown, unknown}, ""},
		{"old words", zones(map[string]string{"old": "SingleNUMANodePodLevel"}, 2, 2), model.OneNUMA, false, [4]int{0, 0, 1, 1}, ""},
		{"old words, container", zones(map[string]string{"old": "SingleNUMANodeContainerLevel"}, 2, 2), model.OneNUMA, true, [4]int{0, 0, 1, 1}, ""},
		{"new words first", zones(map[string]string{"old": "SingleNUMANodePodLevel", "topologyManagerPolicy": "none"}, 2, 2), model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, ""},
		{"unknown policy", zones(policy("strict", "pod"), 2, 2), model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, `NodeResourceTopology "n": attributes[topologyManagerPolicy]: "strict" is not`},
		{"unknown scope", zones(policy("restricted", "host"), 2, 2), model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, `NodeResourceTopology "n": attributes[topologyManagerScope]: "host"`},
		{"no object of that kind", &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "n"}, "zones": "none"}}, model.AnyNUMA, false, [4]int{unknown, unknown, unknown, unknown}, `NodeResourceTopology "n": `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("4")}}}
			inv, err := Describe(node, Facts{Topology: tt.object})
			if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Fatalf("got %v, want %q", err, tt.err)
			}
			var numa [4]int
			for i, d := range inv.Devices {
				numa[i] = d.NUMA
			}
			if inv.NUMA != tt.want || inv.NUMAPerContainer != tt.perContainer || numa != tt.numa {
				t.Errorf("got %s, per container %v, %v", inv.NUMA, inv.NUMAPerContainer, numa)
			}
		})
	}
}
