package sim

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/pack"
)

var update = flag.Bool("update", false, "write testdata anew")

const (
	testNodes = "testdata/nodes.csv"
	testPods  = "testdata/pods.csv"
)

// TestTestdataIsGenerated: the files are what the generator writes; run with
// -update after a change to it.
func TestTestdataIsGenerated(t *testing.T) {
	var nodes, pods bytes.Buffer
	if err := Generate(&nodes, &pods, Size{Nodes: 60, Pods: 450}, 1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{testNodes: nodes.Bytes(), testPods: pods.Bytes()} {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what Generate writes", name)
		}
	}
}

func testTrace(t *testing.T) *Trace {
	t.Helper()
	trace, err := ReadTrace(testNodes, testPods)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestReadTrace(t *testing.T) {
	trace := testTrace(t)
	if len(trace.Nodes) != 60 || len(trace.Pods) != 450 || trace.Capacity() == 0 || trace.Demand() == 0 {
		t.Fatalf("%d nodes, %d pods, capacity %d, demand %d", len(trace.Nodes), len(trace.Pods), trace.Capacity(), trace.Demand())
	}
	count := 0.0
	for _, d := range trace.Workload() {
		if err := d.Class.Validate(); err != nil {
			t.Error(err)
		}
		count += d.Count
	}
	if count != 450 {
		t.Errorf("workload of %v pods", count)
	}
	if four := trace.Times(4); len(four.Nodes) != 240 || four.Capacity() != 4*trace.Capacity() {
		t.Errorf("four times: %d nodes", len(four.Nodes))
	}
}

// TestRowsAreStrict: every mistake is named by file, line and column.
func TestRowsAreStrict(t *testing.T) {
	const nodes = "sn,cpu_milli,memory_mib,gpu,model\n"
	const five = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	const six = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	tests := []struct {
		name, text, want string
		pods             bool
	}{
		{"good node", nodes + "a,1000,1024,2,T4\nb,1000,1024,0,\n", "", false},
		{"good pods", six + "a,1000,1024,1,500,T4|P4\nb,1,1,0,0,\n", "", true},
		{"five columns", five + "a,1000,1024,8,1000\n", "", true},
		{"byte order mark", "\ufeff" + nodes + "a,1000,1024,2,T4\n", "", false},
		{"empty", "", "f: empty file, want a header sn,cpu_milli,memory_mib,gpu,model", false},
		{"no rows", nodes, "f: no nodes", false},
		{"no pods", five, "f: no pods", true},
		{"wrong header", "sn,cpu,memory_mib,gpu,model\n", `f:1: column 2 is "cpu", want "cpu_milli"`, false},
		{"short header", "name,cpu_milli\n", "f:1: column memory_mib is missing, want name,cpu_milli,memory_mib,num_gpu,gpu_milli", true},
		{"pods as nodes", five, `f:1: column 1 is "name", want "sn"`, false},
		{"short row", nodes + "a,1,1,1\n", "f: record on line 2: wrong number of fields", false},
		{"no number", nodes + "a,1000,1024,2,T4\nb,x,1024,2,T4\n", `f:3: column cpu_milli: "x" is not a whole number`, false},
		{"fraction", nodes + "a,1000,10.5,2,T4\n", `f:2: column memory_mib: "10.5" is not a whole number`, false},
		{"negative", five + "a,-5,1,0,0\n", "f:2: column cpu_milli: -5 is not in 0..1099511627776", true},
		{"too many GPUs", nodes + "a,1,1,17,T4\n", "f:2: column gpu: 17 is not in 0..16", false},
		{"GPU without model", nodes + "a,1,1,1,\n", `f:2: column model: 1 GPUs of model "": one without the other`, false},
		{"model without GPU", nodes + "a,1,1,0,T4\n", `f:2: column model: 0 GPUs of model "T4": one without the other`, false},
		{"same node", nodes + "a,1,1,1,T4\na,1,1,1,T4\n", `f:3: column sn: node name "a" is empty or there twice`, false},
		{"no name", nodes + ",1,1,1,T4\n", `f:2: column sn: node name "" is empty or there twice`, false},
		{"over 100 %", five + "a,1,1,1,1001\n", "f:2: column gpu_milli: 1001 is not in 0..1000", true},
		{"two shares", five + "a,1,1,2,500\n", "f:2: column gpu_milli: 500 milli of each of 2 GPUs: only one GPU can be shared", true},
		{"nothing of a GPU", five + "a,1,1,1,0\n", "f:2: column gpu_milli: 0 milli of 1 GPUs: one without the other", true},
		{"milli of nothing", five + "a,1,1,0,5\n", "f:2: column gpu_milli: 5 milli of 0 GPUs: one without the other", true},
		{"empty alternative", six + "a,1,1,1,5,T4||P4\n", `f:2: column gpu_spec: "T4||P4" has an empty model`, true},
		{"first mistake wins", five + "a,x,1,2,500\n", `f:2: column cpu_milli: "x" is not a whole number`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var trace Trace
			read := trace.ReadNodes
			if tt.pods {
				read = trace.ReadPods
			}
			got := ""
			if err := read("f", strings.NewReader(tt.text)); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("sn,cpu_milli,memory_mib,gpu,model\na,1000,1024,2,T4\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,1,1,5,T4|P4\n")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		var trace Trace
		if trace.ReadNodes("n", strings.NewReader(nodes)) != nil || trace.ReadPods("p", strings.NewReader(pods)) != nil {
			return
		}
		for i := range trace.Pods {
			if err := trace.Pods[i].Class.Validate(); err != nil {
				t.Error(err)
			}
		}
		for i := range trace.Nodes {
			if s := trace.Nodes[i].Empty; int(s.Model) >= pack.MaxModels || s.GPUs > pack.MaxGPUs || (s.GPUs == 0) != (s.Model == 0) {
				t.Errorf("bad shape %+v", s)
			}
		}
	})
}

// TestErrorsNameTheFlag runs the command with bad flags and files.
func TestErrorsNameTheFlag(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.csv")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	good := []string{"pack", "--nodes", testNodes, "--pods", testPods}
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"nothing", []string{"pack"}, []string{"--nodes is missing", "--pods is missing"}},
		{"no such file", []string{"pack", "--nodes", filepath.Join(folder, "none.csv"), "--pods", testPods}, []string{"--nodes: open"}},
		{"empty file", []string{"pack", "--nodes", testNodes, "--pods", empty}, []string{"--pods: ", "empty file"}},
		{"policy", append(good, "--policy", "fgd,best"), []string{`--policy "best" is unknown`, "tangram"}},
		{"policy twice", append(good, "--policy", "fgd,fgd"), []string{`--policy "fgd" is there twice`}},
		{"load", append(good, "--load", "-1"), []string{"--load -1 is not in"}},
		{"load is no number", append(good, "--load", "x"), []string{"--load"}},
		{"load NaN", append(good, "--load", "NaN"), []string{"--load NaN is not in"}},
		{"seeds", append(good, "--seeds", "0"), []string{"--seeds 0 is not in"}},
		{"at", append(good, "--at", "0.5,1.4"), []string{"--at 1.4 is beyond --load 1.3"}},
		{"at twice", append(good, "--at", "0.5,0.5"), []string{"--at 0.5 is there twice"}},
		{"workload", append(good, "--workload", "guess"), []string{`--workload "guess" is unknown, want online or oracle`}},
		{"html folder", append(good, "--html", filepath.Join(folder, "no", "r.html")), []string{"--html", "no such folder"}},
		{"svg folder", append(good, "--svg", filepath.Join(folder, "no", "r.svg")), []string{"--svg", "no such folder"}},
		{"html with lifetimes", append(good, "--html", filepath.Join(folder, "r.html"), "--lifetimes"), []string{"--html"}},
		{"scale", append(good, "--scale", "1000"), []string{"--scale 1000 is not in"}},
		{"generate", []string{"generate"}, []string{"--pods is missing: the file to write"}},
		{"generate too few", []string{"generate", "--nodes", "a", "--pods", "b", "--node-count", "0"}, []string{"--node-count 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := NewCommand()
			cmd.SetArgs(tt.args)
			cmd.SetOut(new(bytes.Buffer))
			cmd.SetErr(new(bytes.Buffer))
			err := cmd.Execute()
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
