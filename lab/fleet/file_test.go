package fleet

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// isError reports whether err is about the content of a fleet file.
func isError(err error) bool {
	var p strictyaml.Problem
	return errors.As(err, &p)
}

func TestParseMistakes(t *testing.T) {
	// pool is a right pool; each test puts one thing wrong into a line of its own.
	const pool = "pools:\n- name: a\n  count: 2\n"
	const gpu = pool + "  gpu:\n    model: A100-80GB\n    count: 8\n"
	tests := []struct {
		name, file string
		want       []string
	}{
		{"empty file", "", []string{"f.yaml:1: pools: is missing or empty: a fleet needs at least one pool"}},
		{"only a comment", "# nothing\n", []string{"f.yaml:1: pools: is missing or empty: a fleet needs at least one pool"}},
		{"no pools", "pools: []\n", []string{"f.yaml:1: pools: is missing or empty: a fleet needs at least one pool"}},
		{"not YAML", "pools:\n- name: [\n", []string{"f.yaml:2: not YAML: did not find expected node content"}},
		{"tab", "pools:\n\t- name: a\n", []string{"f.yaml:2: not YAML: found character that cannot start any token"}},
		{"a list at the top", "- name: a\n", []string{"f.yaml:1: a list, want an object with the fields pools"}},
		{"two documents", pool + "---\n" + pool, []string{"f.yaml:4: a second document, want one"}},
		{"unknown field at the top", pool + "nodes: 3\n", []string{"f.yaml:4: nodes: unknown field; the fields here are pools"}},
		{"pools is a number", "pools: 3\n", []string{"f.yaml:1: pools: 3, want a list"}},
		{"pool is a text", "pools:\n- a100\n", []string{`f.yaml:2: pools[0]: the text "a100", want an object with the fields annotations, block, count, cpu, gpu, labels, memory, name, rack, resources, taints, zone`}},
		{"pool without name and count", "pools:\n- zone: z\n", []string{
			"f.yaml:2: pools[0].count: is missing", "f.yaml:2: pools[0].name: is missing",
		}},
		{"name that is no DNS label", "pools:\n- name: A_1\n  count: 1\n", []string{
			`f.yaml:2: pools[0].name: "A_1" cannot begin a node's name: use at most 50 lower case letters, digits and -`,
		}},
		{"same name twice", pool + "- name: a\n  count: 1\n", []string{`f.yaml:4: pools[1].name: "a" is also the name of pools[0]`}},
		{"count of zero", "pools:\n- name: a\n  count: 0\n", []string{"f.yaml:3: pools[0].count: 0, want at least 1"}},
		{"count in words", "pools:\n- name: a\n  count: two\n", []string{`f.yaml:3: pools[0].count: the text "two", want a number`}},
		{"half a node", "pools:\n- name: a\n  count: 1.5\n", []string{"f.yaml:3: pools[0].count: 1.5, want a number"}},
		{"too many nodes in all", "pools:\n- {name: a, count: 60000}\n- {name: b, count: 60000}\n", []string{
			"f.yaml:1: pools: 120000 nodes in all, want at most 100000",
		}},
		{"field given twice", pool + "  count: 3\n", []string{"f.yaml:4: pools[0].count: is there twice"}},
		{"unknown field of a pool", pool + "  racks: 3\n", []string{
			"f.yaml:4: pools[0].racks: unknown field; is rack meant?",
		}},
		{"resource of no vendor", pool + "  resources: {gpu: 3}\n", []string{
			"f.yaml:4: pools[0].resources[gpu]: must be an extended resource such as example.com/gpu; cpu and memory have fields of their own",
		}},
		{"half a resource", pool + "  resources: {example.com/gpu: 1.5}\n", []string{"f.yaml:4: pools[0].resources[example.com/gpu]: 1500m is not a whole number"}},
		{"resource in words", pool + "  resources: {example.com/gpu: many}\n", []string{
			`f.yaml:4: pools[0].resources[example.com/gpu]: the text "many", want a positive quantity such as 96 or 512Gi`,
		}},
		{"annotation without a name", pool + "  annotations: {\"a b\": x}\n", []string{
			"f.yaml:4: pools[0].annotations[a b]: is no annotation name: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		}},
		{"annotation of KWOK", pool + "  annotations: {kwok.x-k8s.io/node: real}\n", []string{"f.yaml:4: pools[0].annotations[kwok.x-k8s.io/node]: is set by tangram.dev itself"}},
		{"negative cpu", pool + "  cpu: -4\n", []string{"f.yaml:4: pools[0].cpu: -4, want a positive quantity such as 96 or 512Gi"}},
		{"memory that is none", pool + "  memory: lots\n", []string{
			`f.yaml:4: pools[0].memory: the text "lots", want a positive quantity such as 96 or 512Gi`,
		}},
		{"memory with an exponent", pool + "  memory: 1e999999999\n", []string{
			`f.yaml:4: pools[0].memory: the text "1e999999999", want a positive quantity such as 96 or 512Gi`,
		}},
		{"rack without size", pool + "  rack: {}\n", []string{"f.yaml:4: pools[0].rack.size: is missing"}},
		{"block of half racks", pool + "  rack: {size: 4}\n  block: {size: 6}\n", []string{
			"f.yaml:5: pools[0].block.size: 6 nodes are not whole racks of 4",
		}},
		{"label name", pool + "  labels:\n    \"a b\": c\n", []string{"f.yaml:5: pools[0].labels[a b]: is no label name: name part must consist of"}},
		{"label value", pool + "  labels:\n    a: \"b c\"\n", []string{`f.yaml:5: pools[0].labels[a]: "b c" is no label value: a valid label must be`}},
		{"label of ours", pool + "  labels: {tangram.dev/pool: x}\n", []string{"f.yaml:4: pools[0].labels[tangram.dev/pool]: is set by tangram.dev itself"}},
		{"taint effect", pool + "  taints:\n  - key: a\n    effect: Never\n", []string{
			`f.yaml:6: pools[0].taints[0].effect: the text "Never", want one of NoSchedule, PreferNoSchedule, NoExecute`,
		}},
		{"gpu without model and count", pool + "  gpu: {}\n", []string{
			"f.yaml:4: pools[0].gpu.count: is missing", "f.yaml:4: pools[0].gpu.model: is missing",
		}},
		{"gpu of nothing", pool + "  gpu:\n", []string{"f.yaml:4: pools[0].gpu: has no value"}},
		{"too many GPUs", pool + "  gpu: {model: T4, count: 17}\n", []string{"f.yaml:4: pools[0].gpu.count: 17, want at most 16"}},
		{"unknown vendor", gpu + "    vendor: matrox\n", []string{`f.yaml:7: pools[0].gpu.vendor: the text "matrox", want one of nvidia, amd, intel`}},
		{"unknown model without memory", pool + "  gpu:\n    model: Voodoo2\n    count: 2\n", []string{
			`f.yaml:5: pools[0].gpu.memory: is needed, as "Voodoo2" is not a known model (T4, `,
		}},
		{"memory twice", gpu + "    memory: 80Gi\n    memoryMiB: 81920\n", []string{
			"f.yaml:8: pools[0].gpu.memoryMiB: is given twice: use memory or memoryMiB",
		}},
		{"memory without a unit", gpu + "    memory: 80\n", []string{"f.yaml:7: pools[0].gpu.memory: 80, want 1Mi to 16Ti: write it like 80Gi"}},
		{"MIG on a T4", pool + "  gpu:\n    model: T4\n    count: 2\n    mig: true\n", []string{
			`f.yaml:7: pools[0].gpu.mig: no MIG profiles are known of "T4", only of A30, A100-40GB`,
		}},
		{"MIG in words", gpu + "    mig: yes please\n", []string{`f.yaml:7: pools[0].gpu.mig: the text "yes please", want true or false`}},
		{"more NUMA nodes than GPUs", pool + "  gpu:\n    model: T4\n    count: 1\n    numaNodes: 2\n", []string{
			"f.yaml:7: pools[0].gpu.numaNodes: 2 NUMA nodes for 1 GPUs",
		}},
		{"unknown layout", gpu + "    links: Infiniband\n", []string{`f.yaml:7: pools[0].gpu.links: the text "Infiniband", want one of NVSwitch, NVLink, PCIe`}},
		{"unknown link class", gpu + "    links:\n    - {between: [0, 1], class: XGMI}\n", []string{
			`f.yaml:8: pools[0].gpu.links[0].class: the text "XGMI", want one of NVSwitch, NVLink, PIX, PXB, PHB, NODE, SYS`,
		}},
		{"link to nowhere", gpu + "    links:\n    - {between: [0, 1], class: PIX}\n    - {between: [0, 8], class: PIX}\n", []string{
			"f.yaml:9: pools[0].gpu.links[1].between: names device 8; there are 0 to 7",
		}},
		{"link to itself", gpu + "    links:\n    - {between: [3, 3], class: PIX}\n", []string{"f.yaml:8: pools[0].gpu.links[0].between: names device 3 twice"}},
		{"link of one", gpu + "    links:\n    - {between: [3], class: PIX}\n", []string{"f.yaml:8: pools[0].gpu.links[0].between: must name at least two devices"}},
		{"all of it at once, by line", "pools:\n- name: a\n  count: 0\n  gpu: {model: T4, count: 0, vendor: x}\n", []string{
			"f.yaml:3: pools[0].count: ", "f.yaml:4: pools[0].gpu.count: ", "f.yaml:4: pools[0].gpu.vendor: ",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("f.yaml", []byte(tt.file))
			if !isError(err) {
				t.Fatalf("Parse = %v, %v, want problems", f, err)
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(tt.want) {
				t.Fatalf("problems:\n%v\nwant %d", err, len(tt.want))
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	const file = `
pools:
- &base
  name: big
  count: 3
  gpu:
    model: My GPU
    vendor: amd
    count: 2
    memory: 24Gi
    sms: 10
    links:
    - {between: [0, 1], class: PIX}
  cpu: 3500m
  memory: 10Gi
  labels: {answer: 42, flag: true}
  taints: [{key: k, value: v, effect: NoSchedule}]
  zone: z
  rack: {size: 2}
  block: {size: 4}
- name: cpu
  count: 1
`
	f, err := Parse("f.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if nodes, gpus := f.Size(); nodes != 4 || gpus != 6 {
		t.Errorf("size = %d nodes, %d GPUs", nodes, gpus)
	}
	p := f.Pools[0]
	want := GPU{
		Model: "My GPU", Vendor: "amd", Count: 2, MemoryMiB: 24 << 10, SMs: 10,
		Links: []v1alpha1.Link{{Between: []int32{0, 1}, Class: "PIX"}},
	}
	if !reflect.DeepEqual(*p.GPU, want) {
		t.Errorf("gpu = %+v\nwant %+v", *p.GPU, want)
	}
	if p.Labels["answer"] != "42" || p.Labels["flag"] != "true" {
		t.Errorf("labels = %v: unquoted values are taken as written", p.Labels)
	}
	if p.CPU.MilliValue() != 3500 || p.RackSize != 2 || p.BlockSize != 4 || len(p.Taints) != 1 {
		t.Errorf("pool = %+v", p)
	}
	if f.Pools[1].GPU != nil {
		t.Error("a pool without GPUs has some")
	}
}

func TestExampleFleetsAreRight(t *testing.T) {
	for _, path := range []string{"../../examples/fleet.yaml", "../../examples/documents/fleet.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(path, data)
		if err != nil {
			t.Fatal(err)
		}
		checkObjects(t, f)
	}
}

// TestForeignPlugins: what other projects' device plugins publish is on the nodes.
func TestForeignPlugins(t *testing.T) {
	f, err := Parse("f.yaml", []byte("pools:\n- name: a\n  count: 1\n  annotations: {volcano.sh/gpu-unhealthy-ids: \"0\"}\n  resources: {aliyun.com/gpu-mem: 64}\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := f.Nodes()[0]
	if got := n.Status.Allocatable["aliyun.com/gpu-mem"]; got.Value() != 64 {
		t.Errorf("sells %s", got.String())
	}
	if n.Annotations["volcano.sh/gpu-unhealthy-ids"] != "0" || n.Annotations[AnnotationSimulated] != Simulated {
		t.Errorf("annotations = %v", n.Annotations)
	}
}

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../../examples/fleet.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte("pools: [&a {name: x, count: 1, gpu: *a}]"))
	f.Add([]byte("pools: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleet, err := Parse("f.yaml", data)
		if err != nil {
			if !isError(err) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for i := range fleet.Pools { // what is accepted can be built; one node will do
			fleet.Pools[i].Count = 1
		}
		checkObjects(t, fleet)
	})
}
