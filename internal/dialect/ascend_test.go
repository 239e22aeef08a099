package dialect

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

const (
	register310P  = `[{"id":"npu-a","index":0,"count":7,"devmem":21527,"devcore":8,"type":"Ascend310P","numa":0,"health":true},{"id":"npu-b","index":1,"count":7,"devmem":21527,"devcore":8,"type":"Ascend310P","health":false}]`
	register910B3 = `[{"id":"npu-x","index":0,"count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]`
)

func ascendNode(allocatable string, annotations ...string) *v1.Node {
	n := nodeOf(nil, allocatable)
	n.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

// TestAscendNodes: all kinds of cards of a node count, as plugins register or publish
// them.
func TestAscendNodes(t *testing.T) {
	tests := []struct {
		name    string
		node    *v1.Node
		want    string // "index model MiB tenants" of each device, sick and cordoned ones with a minus
		problem string
	}{
		{"two kinds, published", ascendNode("huawei.com/Ascend910B3=1 huawei.com/Ascend310P=2"), "0 ascend-310p 21527 0, 1 ascend-310p 21527 0, 2 ascend-910b3 65536 0", ""},
		{"memory published", ascendNode("huawei.com/Ascend310P=2 huawei.com/Ascend310P-memory=40000 huawei.com/Ascend310P-core=200"), "0 ascend-310p 20000 0, 1 ascend-310p 20000 0", ""},
		{"lower case", ascendNode("huawei.com/ascend310p=1"), "0 ascend-310p 21527 0", ""},
		{"AI cores", ascendNode("huawei.com/npu-core=16"), "0 ascend-310p 21527 7, 1 ascend-310p 21527 7", ""},
		{"AI cores of cards that are published too", ascendNode("huawei.com/npu-core=8 huawei.com/Ascend310P=1"), "0 ascend-310p 21527 0", ""},
		{"registered by HAMi", ascendNode("huawei.com/Ascend310P=14", "hami.io/node-register-Ascend310P", register310P), "0 ascend-310p 21527 7, -1 ascend-310p 21527 7", ""},
		{"two kinds, registered by HAMi", ascendNode("huawei.com/Ascend310P=14 huawei.com/Ascend910B3=4", "hami.io/node-register-Ascend310P", register310P, "hami.io/node-register-Ascend910B3", register910B3),
			"0 ascend-310p 21527 7, -1 ascend-310p 21527 7, 2 ascend-910b3 65536 4", ""},
		{"one registered, one published", ascendNode("huawei.com/Ascend310P=2 huawei.com/Ascend910B3=4", "hami.io/node-register-Ascend910B3", register910B3),
			"0 ascend-910b3 65536 4, 1 ascend-310p 21527 0, 2 ascend-310p 21527 0", ""},
		{"HAMi's older form", ascendNode("", "hami.io/node-register-Ascend310P", "npu-a,7,21527,8,Ascend310P,0,true:npu-b,7,21527,8,Ascend310P,1,false,5,x:"), "0 ascend-310p 21527 7, -5 ascend-310p 21527 7", ""},
		{"cordoned", ascendNode("", "hami.io/node-register-Ascend910B3", register910B3, hamiCordon, "npu-x"), "-0 ascend-910b3 65536 4", ""},
		{"cut beforehand", ascendNode("huawei.com/Ascend310P-2c=2"), "0 ascend-310p-2c 0 0, 1 ascend-310p-2c 0 0", ""},
		{"invalid JSON", ascendNode("huawei.com/Ascend310P=1", "hami.io/node-register-Ascend310P", "[{"), "", "metadata.annotations[hami.io/node-register-Ascend310P]"},
		{"older form, too short", ascendNode("", "hami.io/node-register-Ascend310P", "npu-a,7:"), "", "entry 0: 2 fields"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, err := Inventory(tt.node, nil)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Fatalf("problem: got %v, want %q", err, tt.problem)
			}
			if err := ledger.Validate(inv); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range inv.Devices {
				sick := ""
				if d.Health != model.Healthy || d.Cordoned {
					sick = "-"
				}
				got = append(got, fmt.Sprintf("%s%d %s %d %d", sick, d.Index, d.Model, d.Memory, d.Tenants))
			}
			if text := strings.Join(got, ", "); text != tt.want || inv.Sellable[model.Ascend] != len(inv.Devices) {
				t.Errorf("got  %s, %d to sell\nwant %s", text, inv.Sellable[model.Ascend], tt.want)
			}
		})
	}
}

// TestAscendKinds: on a node with two kinds of cards a pod gets the kind it names.
func TestAscendKinds(t *testing.T) {
	inv, err := Inventory(ascendNode("huawei.com/Ascend310P=14 huawei.com/Ascend910B3=4", "hami.io/node-register-Ascend310P", register310P, "hami.io/node-register-Ascend910B3", register910B3), nil)
	if err != nil {
		t.Fatal(err)
	}
	for requests, want := range map[string]string{
		"huawei.com/Ascend310P=1": "[0]", "huawei.com/ascend310p=1 huawei.com/ascend310p-memory=3072": "[0]", "huawei.com/npu-core=4": "[0]",
		"huawei.com/Ascend910B3=1": "[2]", "huawei.com/Ascend910=1": "[2]", "huawei.com/Ascend910A=1": "none", "huawei.com/Ascend310P=2": "none", "huawei.com/Ascend310P-2c=1": "none",
	} {
		l := ledger.New()
		if err := l.SetNode(inv); err != nil {
			t.Fatal(err)
		}
		r, err := Request(podOf(container("a", requests)))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := l.View(inv.ID)
		got := "none"
		if grant, refusal := place.Fit(r, v); refusal == nil {
			var indexes []int
			for slot := range grant.Set.Slots() {
				indexes = append(indexes, inv.Devices[slot].Index)
			}
			got = fmt.Sprint(indexes)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", requests, got, want)
		}
	}
	two := podOf(container("a", "huawei.com/Ascend310P=1"), container("b", "huawei.com/Ascend910B3=1"))
	if _, err := Request(two); err == nil || !strings.Contains(err.Error(), "two kinds of cards in one pod") {
		t.Errorf("two kinds in one pod: got %v", err)
	}
	named := podOf(container("a", "huawei.com/ascend310p=1"))
	named.Annotations["hami.io/use-Ascend310P-uuid"], named.Annotations["hami.io/no-use-Ascend310P-uuid"] = "npu-a", "npu-b"
	if r, err := Request(named); err != nil || fmt.Sprint(r.UseUUIDs, r.AvoidUUIDs) != "[npu-a] [npu-b]" {
		t.Errorf("by UUID: got %+v, %v", r, err)
	}
}

// TestAscendTemplatesFill: templates take memory and AI cores, so that a card is never
// cut into more than it has.
func TestAscendTemplatesFill(t *testing.T) {
	inv, err := Inventory(ascendNode("", "hami.io/node-register-Ascend910B3", register910B3), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	if err := l.SetNode(inv); err != nil {
		t.Fatal(err)
	}
	bind := func(requests string) bool {
		r, err := Request(podOf(container("a", requests)))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := l.View(inv.ID)
		grant, refusal := place.Fit(r, v)
		if refusal == nil {
			l.Put(inv.ID, grant.Claim(model.HolderID(fmt.Sprint(requests, v.Usage(0))), r, inv))
		}
		return refusal == nil
	}
	const half, quarter = "huawei.com/Ascend910B3=1 huawei.com/Ascend910B3-memory=20000", "huawei.com/Ascend910B3=1 huawei.com/Ascend910B3-memory=100"
	for i, step := range []struct {
		requests string
		want     bool
	}{{half, true}, {quarter, true}, {half, false}, {"huawei.com/Ascend910B3=1", false}, {quarter, true}, {quarter, false}} {
		if got := bind(step.requests); got != step.want {
			t.Errorf("step %d, %s: placed %v", i, step.requests, got)
		}
	}
}

// TestAscendAnnotations are what HAMi's and MindCluster's plugins read.
func TestAscendAnnotations(t *testing.T) {
	hami310P := func() *v1.Node {
		return ascendNode("huawei.com/Ascend310P=14", "hami.io/node-register-Ascend310P", register310P)
	}
	soft := podOf(container("a", "huawei.com/Ascend310P=1 huawei.com/Ascend310P-memory=4000"))
	soft.Annotations[ascendMode] = "hami-core"
	tests := []struct {
		name string
		node *v1.Node
		pod  *v1.Pod
		want map[string]string
	}{
		{"a template", hami310P(), podOf(container("a", "huawei.com/ascend310p=1 huawei.com/ascend310p-memory=4000")), map[string]string{
			"hami.io/Ascend310P-devices-to-allocate": "npu-a,Ascend310P,6144,0:;", "huawei.com/Ascend310P": `[{"UUID":"npu-a","temp":"vir02"}]`,
			"hami.io/bind-phase": "allocating", "predicate-time": "100", "hami.io/vgpu-node": "n",
		}},
		{"memory and cores", hami310P(), podOf(container("a", "huawei.com/Ascend310P=1 huawei.com/Ascend310P-memory=4000 huawei.com/Ascend310P-core=30")), map[string]string{
			"hami.io/Ascend310P-devices-allocated": "npu-a,Ascend310P,4000,30:;", "huawei.com/Ascend310P": `[{"UUID":"npu-a","memory":4000,"core":30}]`,
		}},
		{"a whole card that HAMi registered", hami310P(), podOf(container("a", "huawei.com/Ascend310P=1")), map[string]string{
			"hami.io/Ascend310P-devices-to-allocate": "npu-a,Ascend310P,21527,0:;", "huawei.com/Ascend310P": `[{"UUID":"npu-a"}]`,
		}},
		{"AI cores", ascendNode("huawei.com/npu-core=16"), podOf(container("a", "huawei.com/npu-core=4")), map[string]string{"huawei.com/npu-core": "0-vir04", "predicate-time": "100000000000"}},
		{"AI cores of two cards", ascendNode("huawei.com/npu-core=16"), podOf(container("a", "huawei.com/npu-core=16")), map[string]string{"huawei.com/npu-core": "0,1"}},
		{"whole cards of Huawei's own plugin need nothing", ascendNode("huawei.com/Ascend910=8"), podOf(container("a", "huawei.com/Ascend910=2")), map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := placeOn(t, tt.pod, tt.node)
			for key, want := range tt.want {
				if got := p.Annotations[key]; got != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
			if len(tt.want) == 0 && len(p.Annotations) != 1 {
				t.Errorf("got %v", p.Annotations)
			}
		})
	}
	if r, err := Request(soft); err != nil || r.Containers[0].Part.Memory != 4000 {
		t.Errorf("hami-core takes memory as it is: got %+v, %v", r, err)
	}
}

// TestAscendCharge: a limit on cards is not left by another spelling.
func TestAscendCharge(t *testing.T) {
	node := ascendNode("huawei.com/Ascend310P=14", "hami.io/node-register-Ascend310P", register310P)
	inv, _ := Inventory(node, nil)
	p := placeOn(t, podOf(container("a", "huawei.com/ascend310p=1 huawei.com/ascend310p-memory=4000")), node)
	got := Charge(p, inv)
	if got["resource/huawei.com/Ascend310P"] != 1 || got["resource/huawei.com/Ascend310P-memory"] != 4000 || got["gpu/ascend"] != 286 || got["model/ascend-310p"] != 286 {
		t.Errorf("got %v", got)
	}
	q, err := QueueOf(parsed(t, "{metadata: {name: q}, spec: {capability: {huawei.com/ascend310p: 2, gpu.tangram.dev/ascend310p: 2}}}"))
	if err != nil || q.Capability["resource/huawei.com/Ascend310P"] != 2 || q.Capability["model/ascend-310p"] != 2000 {
		t.Errorf("got %v, %v", q.Capability, err)
	}
}
