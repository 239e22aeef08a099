package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatiosCompareOneRound(t *testing.T) {
	round1 := []Result{
		{Contender: Ceiling, Round: 1, PodsPerSecond: 400},
		{Contender: KubeScheduler, Round: 1, PodsPerSecond: 200},
		{Contender: Tangram, Round: 1, PodsPerSecond: 300},
	}
	// The machine got twice as fast; every ratio but Tangram's stays.
	round2 := []Result{
		{Contender: Tangram, Round: 2, PodsPerSecond: 640},
		{Contender: Ceiling, Round: 2, PodsPerSecond: 800},
		{Contender: KubeScheduler, Round: 2, PodsPerSecond: 400},
	}
	addRatios(round1)
	addRatios(round2)
	summary := summarise(contenderNames(), append(round1, round2...))
	if len(summary) != 3 {
		t.Fatalf("%d summaries", len(summary))
	}
	got := summary[2]
	if got.Contender != Tangram || got.Round != 0 || got.PodsPerSecond != 470 {
		t.Errorf("got %+v", got)
	}
	if r := *got.OfCeiling; r < 0.774 || r > 0.776 { // of 0.75 and 0.80, not 470/600
		t.Errorf("of the ceiling %v, want 0.775", r)
	}
	if r := *got.OfKubeScheduler; r < 1.549 || r > 1.551 {
		t.Errorf("of kube-scheduler %v, want 1.55", r)
	}
}

func TestInvalidReferenceGivesNoRatio(t *testing.T) {
	round := []Result{
		{Contender: Ceiling, Round: 1, PodsPerSecond: 400, Problems: []string{"pod a is not bound"}},
		{Contender: Tangram, Round: 1, PodsPerSecond: 300},
	}
	addRatios(round)
	summary := summarise([]string{Ceiling, Tangram}, round)
	if summary[1].OfCeiling != nil || summary[1].OfKubeScheduler != nil {
		t.Errorf("ratios to nothing: %+v", summary[1])
	}
	if summary[0].Valid() || summary[0].Problems[0] != "round 1: pod a is not bound" {
		t.Errorf("problems %q", summary[0].Problems)
	}
}

func TestTable(t *testing.T) {
	one, half := 1.0, 0.5
	report := Report{
		Machine:  Machine{CPUs: 2},
		Settings: Settings{Nodes: 1000, GPUsPerNode: 8, Pods: 2000, GPUsPerPod: 1, Rounds: 1},
		Trials:   []Result{{OtherCPU: 0.02}, {OtherCPU: 0.5}},
		Summary: []Result{
			{
				Contender: Ceiling, PodsPerSecond: 485.4, OfCeiling: &one, SchedulerCPU: 0.7, ClientCPU: 0.31, OtherCPU: 0.02,
				CreateToBound: Latency{P50: 31.25, P95: 80, P99: 1201.5}, PeakMemory: 55.2, NodesUsed: 1000,
			},
			{
				Contender: Tangram, PodsPerSecond: 242.7, OfCeiling: &half, SchedulerCPU: 1.25, ClientCPU: 0.3, OtherCPU: 0.5,
				CreateToBound: Latency{P50: 3, P95: 8, P99: 12}, PeakMemory: 110, NodesUsed: 250,
				Problems: []string{"pod pod-000001 is not bound"},
			},
		},
	}
	want := `1000 nodes x 8 GPUs, 2000 pods of 1 GPU, created as fast as possible, 1 round, 2 CPUs

                                of   of kube-   scheduler  create to bound ms  peak  nodes      client  other
contender          pods/s  ceiling  scheduler  CPU ms/pod   p50   p95     p99   MiB   used  CPU ms/pod    CPU
ceiling               485     1.00          -        0.70  31.2  80.0  1201.5    55   1000        0.31     2%
tangram (INVALID)     243     0.50          -        1.25   3.0   8.0    12.0   110    250        0.30    50%

Other processes took up to 50% of the machine: repeat on a quiet one, or with more --rounds.

INVALID tangram: pod pod-000001 is not bound
`
	var b strings.Builder
	if err := report.writeTable(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for i, line := range strings.Split(got, "\n") {
		if strings.HasSuffix(line, " ") {
			t.Errorf("line %d ends in a space: %q", i, line)
		}
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWriteJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	report := Report{Summary: []Result{{Contender: Ceiling, ClientCPU: 0.25}}}
	if err := report.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Summary[0].ClientCPU != 0.25 || !strings.Contains(string(data), `"clientCPUmsPerPod": 0.25`) {
		t.Errorf("got %s", data)
	}
}
