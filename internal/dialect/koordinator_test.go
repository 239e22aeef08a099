package dialect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// TestKoordinatorAmounts: what Koordinator's resources ask for, and the field that is
// named when they are wrong.
func TestKoordinatorAmounts(t *testing.T) {
	share := func(mib model.MiB, memory, compute int) model.Part {
		return model.Part{Kind: model.Share, Memory: mib, MemoryMilli: memory, Milli: compute}
	}
	const at = "spec.containers[0].resources.requests["
	for name, tt := range map[string]struct {
		ask   pairs
		count int
		part  model.Part
		want  string
	}{
		"half a card":     {pairs{"gpu.shared": "1", "gpu-core": "50", "gpu-memory-ratio": "50"}, 1, share(0, 500, 500), ""},
		"memory":          {pairs{"gpu.shared": "1", "gpu-core": "50", "gpu-memory": "16Gi"}, 1, share(16384, 0, 500), ""},
		"over two cards":  {pairs{"gpu.shared": "2", "gpu-core": "100", "gpu-memory-ratio": "100"}, 2, share(0, 500, 500), ""},
		"one whole":       {pairs{"gpu": "100"}, 1, model.Part{}, ""},
		"two whole":       {pairs{"gpu-core": "200", "gpu-memory-ratio": "200"}, 2, model.Part{}, ""},
		"half by gpu":     {pairs{"gpu": "50"}, 1, share(0, 500, 500), ""},
		"without compute": {pairs{"gpu-memory-ratio": "30"}, 1, share(0, 300, 0), ""},
		"nothing":         {pairs{"gpu": "0"}, 0, model.Part{}, ""},

		"core alone":    {ask: pairs{"gpu-core": "50"}, want: at + "koordinator.sh/gpu-core]: given without"},
		"shared alone":  {ask: pairs{"gpu.shared": "2"}, want: at + "koordinator.sh/gpu.shared]: given without"},
		"two memories":  {ask: pairs{"gpu-memory": "16Gi", "gpu-memory-ratio": "50"}, want: at + "koordinator.sh/gpu-memory]: given beside"},
		"gpu and core":  {ask: pairs{"gpu": "50", "gpu-core": "50"}, want: at + "koordinator.sh/gpu]: given beside"},
		"150":           {ask: pairs{"gpu": "150"}, want: at + "koordinator.sh/gpu]: 150, above 100"},
		"not divisible": {ask: pairs{"gpu.shared": "2", "gpu-core": "25", "gpu-memory-ratio": "50"}, want: at + "koordinator.sh/gpu-core]: 25 cannot be divided"},
		"too much core": {ask: pairs{"gpu-core": "200", "gpu-memory-ratio": "50"}, want: at + "koordinator.sh/gpu-core]: 200%"},
		"bytes":         {ask: pairs{"gpu-memory": "16"}, want: at + "koordinator.sh/gpu-memory]: 16 is not an amount"},
		"negative":      {ask: pairs{"gpu-core": "-5", "gpu-memory-ratio": "50"}, want: at + "koordinator.sh/gpu-core]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podWith(nil, nil, nil)
			list := v1.ResourceList{}
			for word, amount := range tt.ask {
				list[v1.ResourceName("koordinator.sh/"+word)] = resource.MustParse(amount)
			}
			p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list}}}
			r, err := Request(p)
			switch {
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			case err != nil:
				t.Error(err)
			case tt.count == 0:
				if r != nil {
					t.Errorf("got %+v", r)
				}
			case r.Containers[0].Count != tt.count || r.Containers[0].Part != tt.part:
				t.Errorf("got %+v", r.Containers[0])
			}
		})
	}
}

// TestKoordinatorHints: hints that can be kept are, the others are refused by field.
func TestKoordinatorHints(t *testing.T) {
	read := func(annotations pairs) (*model.Request, error) {
		p := podWith(nil, annotations, nil)
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{koordGPU: resource.MustParse("200")}}}}
		return Request(p)
	}
	if r, err := read(pairs{koordHint: `{"gpu":{"requiredTopologyScope":"NUMANode"}}`}); err != nil || !r.Require.NUMA {
		t.Errorf("got %+v, %v", r, err)
	}
	for key, value := range map[string]string{
		koordHint: `{"gpu":{"selector":{"matchLabels":{"a":"b"}}}}`, koordJoint: `{"deviceTypes":["gpu","rdma"]}`, koordPartition: `{"allocatePolicy":"Restricted"}`,
	} {
		if _, err := read(pairs{key: value}); err == nil || !strings.Contains(err.Error(), "metadata.annotations["+key+"]") {
			t.Errorf("%s: got %v", key, err)
		}
	}
	if _, err := read(pairs{koordHint: `x`}); err == nil {
		t.Error("an invalid hint is read")
	}
}

// TestKoordinatorGangs: gangs by annotation, by label, and bundles of gangs.
func TestKoordinatorGangs(t *testing.T) {
	m, err := MembershipOf(podWith(nil, pairs{koordGang: "g", koordMin: "3", koordTotal: "5", koordMode: "NonStrict", koordWait: "5m"}, nil))
	if err != nil || m.Key != "koord/team/g" || m.Size != 3 {
		t.Errorf("got %+v, %v", m, err)
	}
	m, err = MembershipOf(podWith(pairs{koordLightName: "g", koordLightMin: "4"}, nil, nil))
	if err != nil || m.Key != "koord/team/g" || m.Size != 4 {
		t.Errorf("got %+v, %v", m, err)
	}
	a, err := MembershipOf(podWith(nil, pairs{koordGang: "a", koordMin: "2", koordGangs: `["team/a","team/b"]`}, nil))
	b, err2 := MembershipOf(podWith(nil, pairs{koordGang: "b", koordMin: "1", koordGangs: `["team/b","team/a"]`}, nil))
	if err != nil || err2 != nil || a.Key != b.Key || a.Task != "a" || a.TaskMin != 2 || a.Tasks != "a,b" || b.TaskMin != 1 {
		t.Errorf("got %+v and %+v, %v, %v", a, b, err, err2)
	}
	for field, annotations := range map[string]pairs{
		koordMin:     {koordGang: "g"},
		koordTotal:   {koordGang: "g", koordMin: "3", koordTotal: "2"},
		koordMode:    {koordGang: "g", koordMin: "3", koordMode: "Loose"},
		koordWait:    {koordGang: "g", koordMin: "3", koordWait: "soon"},
		koordGangs:   {koordGang: "g", koordMin: "3", koordGangs: `["other/a","team/g"]`},
		koordNetwork: {koordGang: "g", koordMin: "3", koordNetwork: `{}`},
	} {
		if _, err := MembershipOf(podWith(nil, annotations, nil)); err == nil || !strings.Contains(err.Error(), "metadata.annotations["+field+"]") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if NamedQueue(podWith(pairs{names.LabelKoordQuota: "q"}, nil, nil)) != "q" {
		t.Error("Koordinator's quota names no queue")
	}
}

// TestKoordinatorNode: cards of a node that only Koordinator describes, and what its agent
// reads of a placed pod.
func TestKoordinatorNode(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: pairs{names.LabelAccelerator: "A100"}}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		koordCore: resource.MustParse("800"), koordMemory: resource.MustParse("640Gi")}}}
	n, err := Inventory(node, nil)
	if err != nil || len(n.Devices) != 8 || n.Devices[7].Memory != 81920 || n.Sellable[model.NVIDIA] != 8 {
		t.Fatalf("got %+v, %v", n, err)
	}
	node.Labels[koordVendor] = "huawei"
	if other, _ := Inventory(node, nil); len(other.Devices) > 0 {
		t.Errorf("cards of another vendor: %+v", other.Devices)
	}
	p := podWith(nil, nil, nil)
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{koordGPU: resource.MustParse("50")}}}}
	r, err := Request(p)
	if err != nil {
		t.Fatal(err)
	}
	g := place.Grant{Set: 1 << 2, Parts: []place.GrantedPart{{Slot: 2, Part: r.Containers[0].Part, Memory: 40960}}}
	var got map[string][]koordDevice
	if err := json.Unmarshal([]byte(Annotations(p, r, n, g, time.Time{})[koordAllocated]), &got); err != nil {
		t.Fatal(err)
	}
	if d := got["gpu"]; len(d) != 1 || d[0].Minor != 2 || d[0].Resources["koordinator.sh/gpu-core"] != "50" || d[0].Resources["koordinator.sh/gpu-memory"] != "40Gi" || d[0].Resources["koordinator.sh/gpu-memory-ratio"] != "50" {
		t.Errorf("got %+v", got)
	}
}

// TestJobID: requirement document 002's barrier.
func TestJobID(t *testing.T) {
	p := podWith(pairs{names.LabelJobID: "train-7", names.LabelGangSize: "4"}, nil, nil)
	if m, err := MembershipOf(p); err != nil || m.Key != "job-id/team/train-7" || m.Size != 4 {
		t.Errorf("got %+v, %v", m, err)
	}
	if key, value := SharedLabel(p); key != names.LabelJobID || value != "train-7" {
		t.Errorf("got %s=%s", key, value)
	}
	delete(p.Labels, names.LabelGangSize)
	if m, err := MembershipOf(p); err != nil || m.Key != "" {
		t.Errorf("a label that others use makes a gang: %+v, %v", m, err)
	}
	p.Spec.SchedulerName = names.CustomSchedulerName
	if _, err := MembershipOf(p); err == nil || !strings.Contains(err.Error(), "metadata.labels["+names.LabelGangSize+"]") {
		t.Errorf("got %v", err)
	}
}
