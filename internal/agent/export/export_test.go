package export

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file")

var now = time.Unix(1_800_000_000, 0)

// node is what a test's collector reads.
type node struct {
	readings  []Reading
	holders   map[string][]Holder
	processes map[int]Holder
}

func (n *node) options() Options {
	return Options{Node: "node-1", XIDWindow: 5 * time.Minute, Now: func() time.Time { return now }, Sources: Sources{
		Driver:   func() string { return "580.159.03" },
		Readings: func() []Reading { return n.readings },
		Holders:  func(uuid string) []Holder { return n.holders[uuid] },
		Process:  func(pid int) (Holder, bool) { h, ok := n.processes[pid]; return h, ok },
	}}
}

// full is a sample with every field.
func full(uuid string) device.Sample {
	s := device.Sample{UUID: uuid, At: now.Add(-5 * time.Second), Values: map[device.Field]float64{}}
	for i, f := range device.Fields() {
		s.Values[f] = float64(10 * i)
	}
	return s
}

func gpu(index int) device.Device {
	return device.Device{Index: index, Minor: index, UUID: fmt.Sprintf("GPU-%d", index), Model: "NVIDIA H200", PCIBusID: fmt.Sprintf("0000:%02x:00.0", 27+index)}
}

// example has a GPU that one container holds, one that two share, and one that is cut.
func example() *node {
	cut := gpu(2)
	cut.MIG = &device.MIG{Enabled: true, Instances: []device.Instance{
		{UUID: "MIG-a", GPUInstance: 7, Profile: "1g.18gb"}, {UUID: "MIG-b", GPUInstance: 9, Profile: "3g.71gb"}}}
	mig := device.Sample{UUID: "GPU-2", At: now, Values: map[device.Field]float64{device.Temperature: 50},
		Instances: map[string]map[device.Field]float64{"MIG-a": {device.MemoryUsed: 1000, device.MemoryFree: 15384}, "MIG-b": {device.MemoryUsed: 5}, "MIG-gone": {device.MemoryUsed: 1}},
		Processes: []device.Process{{PID: 30, MemoryMiB: 990, SMPercent: -1, Instance: "MIG-a"}, {PID: 31, Instance: "MIG-gone"}}}
	shared := full("GPU-1")
	shared.Values = map[device.Field]float64{device.Utilization: 90}
	shared.Processes = []device.Process{{PID: 20, MemoryMiB: 100, SMPercent: 60}, {PID: 21, MemoryMiB: 11, SMPercent: 5}, {PID: 22, MemoryMiB: 300, SMPercent: 30}, {PID: 99, MemoryMiB: 7, SMPercent: 1}, {PID: 98, MemoryMiB: 3, SMPercent: -1}}
	one := Holder{"team-a", "train-0", "main"}
	return &node{
		readings: []Reading{
			{Device: gpu(0), Sample: full("GPU-0"), XIDs: map[int]uint64{31: 4, 94: 1}, RecentXIDs: map[int]uint64{31: 1}},
			{Device: gpu(1), Sample: shared, Health: health.Status{State: health.Degraded, Code: health.RowRemapPending}},
			{Device: cut, Sample: mig, Health: health.Status{State: health.Suspect, Code: health.RestartError}},
		},
		holders: map[string][]Holder{
			"GPU-0": {one},
			"GPU-1": {{"team-a", "a", "main"}, {"team-b", "b", "main"}},
			"MIG-a": {{"team-c", "small", "main"}},
		},
		processes: map[int]Holder{20: {"team-a", "a", "main"}, 21: {"team-a", "a", "main"}, 22: {"team-b", "b", "main"}, 30: {"team-c", "small", "main"}},
	}
}

// scrape is the text that a collector shows.
func scrape(t testing.TB, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	Handler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, text)
	}
	return string(text)
}

func TestGolden(t *testing.T) {
	got := scrape(t, NewCollector(example().options()))
	const file = "testdata/scrape.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("go test ./internal/agent/export -rewrite, then read the change:\n%s", diff)
	}
}

// TestEveryField: each field of a sample has a metric, and each name is used once.
func TestEveryField(t *testing.T) {
	fields, names := map[device.Field]bool{}, map[string]bool{}
	for _, m := range metrics {
		if fields[m.field] || names[m.name] || m.help == "" {
			t.Errorf("%s: twice, or without help", m.name)
		}
		fields[m.field], names[m.name] = true, true
	}
	for _, f := range device.Fields() {
		if !fields[f] {
			t.Errorf("field %d has no metric", f)
		}
	}
}

// lines are the lines of a scrape that are no comments, without their values.
func lines(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != '#' {
			out = append(out, line[:strings.LastIndex(line, " ")])
		}
	}
	return out
}

// TestCardinality: the number of series is bounded by devices, instances and containers,
// however many processes run and whatever they were before; and they vanish with their
// pods.
func TestCardinality(t *testing.T) {
	const gpus, containers = 8, 5
	n := &node{holders: map[string][]Holder{}, processes: map[int]Holder{}}
	for i := range gpus {
		r := Reading{Device: gpu(i), Sample: full(fmt.Sprintf("GPU-%d", i)), XIDs: map[int]uint64{31: 1}, RecentXIDs: map[int]uint64{}}
		n.readings = append(n.readings, r)
	}
	c := NewCollector(n.options())
	perDevice := len(metrics) + 1 + len(health.States()) + 2 // values, health, states, two counts of one XID
	idle := lines(scrape(t, c))
	if len(idle) != gpus*perDevice {
		t.Errorf("%d series without pods, want %d", len(idle), gpus*perDevice)
	}
	for round := range 50 {
		for i := range gpus {
			uuid := n.readings[i].Device.UUID
			n.holders[uuid], n.readings[i].Sample.Processes = nil, nil
			for k := range containers {
				h := Holder{"team", fmt.Sprintf("pod-%d-%d-%d", round, i, k), "main"}
				n.holders[uuid] = append(n.holders[uuid], h)
				for p := range 20 {
					pid := round*100000 + i*1000 + k*100 + p
					n.processes[pid] = h
					n.readings[i].Sample.Processes = append(n.readings[i].Sample.Processes, device.Process{PID: pid, MemoryMiB: 1, SMPercent: 1})
				}
			}
			// Processes of no pod are one together.
			for p := range 30 {
				n.readings[i].Sample.Processes = append(n.readings[i].Sample.Processes, device.Process{PID: -1 - p, MemoryMiB: 1})
			}
		}
		text := scrape(t, c)
		if got, want := len(lines(text)), gpus*(perDevice+2*(containers+1)); got != want {
			t.Fatalf("round %d: %d series, want %d", round, got, want)
		}
		if old := fmt.Sprintf("pod-%d-", round-1); strings.Contains(text, old) {
			t.Fatalf("round %d: pods of the round before are still there", round)
		}
	}
	for i := range gpus {
		n.readings[i].Sample.Processes = nil
	}
	n.holders = nil
	if diff := cmp.Diff(idle, lines(scrape(t, c))); diff != "" {
		t.Errorf("series remain when all pods are gone:\n%s", diff)
	}
}

func TestOldSamplesEnd(t *testing.T) {
	n := example()
	n.readings = n.readings[:1]
	n.readings[0].Sample.At = now.Add(-2 * time.Minute)
	text := scrape(t, NewCollector(n.options()))
	if strings.Contains(text, "DCGM_FI_DEV_GPU_TEMP") || !strings.Contains(text, "tangram_agent_device_health") || !strings.Contains(text, "DCGM_EXP_XID_ERRORS_TOTAL") {
		t.Errorf("of an old sample only health and errors are shown:\n%s", text)
	}
}

// TestStrangeText: names from a driver or a pod cannot spoil a scrape.
func TestStrangeText(t *testing.T) {
	n := example()
	n.readings[0].Device.Model = "H\xff\"200\n"
	n.readings[0].Device.PCIBusID = "nonsense"
	n.holders["GPU-0"] = []Holder{{"a", "\xc3\x28", "c"}}
	if text := scrape(t, NewCollector(n.options())); !strings.Contains(text, `modelName="H?\"200\n"`) || !strings.Contains(text, `pci_bus_id="NONSENSE"`) {
		t.Error("not escaped")
	}
	if got := busID("0000:1b:00.0") + " " + busID("00000001:1B:00.0"); got != "00000000:1B:00.0 00000001:1B:00.0" {
		t.Error(got)
	}
}

func TestAgent(t *testing.T) {
	a, b := NewMetrics("n1"), NewMetrics("n2") // two nodes in one process
	a.Call("sample", nil, 20*time.Millisecond)
	a.Call("sample", fmt.Errorf("x: %w", device.ErrTimeout), 10*time.Second)
	a.Driver(true, false)
	a.HealthChange(health.Degraded)
	a.Reset(device.ErrBusy)
	a.RecordCorrected()
	a.Allocation("Allocate", errors.New("x"))
	a.GPUNodeWrite("status", nil)
	a.MPS("start", device.ErrNotSupported)
	a.MIG("create", device.ErrNotFound)
	b.MIG("create", device.ErrNoDriver)
	text := scrape(t, a, b, NewCollector(example().options()))
	for _, want := range []string{
		`tangram_agent_backend_calls_total{Hostname="n1",call="sample",result="ok"} 1`,
		`tangram_agent_backend_calls_total{Hostname="n1",call="sample",result="timeout"} 1`,
		`tangram_agent_backend_call_seconds_bucket{Hostname="n1",call="sample",le="0.1"} 1`,
		`tangram_agent_backend_call_seconds_count{Hostname="n1",call="sample"} 2`,
		`tangram_agent_driver_answering{Hostname="n1"} 1`,
		`tangram_agent_driver_answering{Hostname="n2"} 0`,
		`tangram_agent_events_watched{Hostname="n1"} 0`,
		`tangram_agent_health_changes_total{Hostname="n1",state="Degraded"} 1`,
		`tangram_agent_resets_total{Hostname="n1",result="busy"} 1`,
		`tangram_agent_records_corrected_total{Hostname="n1"} 1`,
		`tangram_agent_allocations_total{Hostname="n1",result="error",step="Allocate"} 1`,
		`tangram_agent_gpunode_writes_total{Hostname="n1",part="status",result="ok"} 1`,
		`tangram_agent_mps_actions_total{Hostname="n1",action="start",result="not_supported"} 1`,
		`tangram_agent_mig_actions_total{Hostname="n1",action="create",result="not_found"} 1`,
		`tangram_agent_mig_actions_total{Hostname="n2",action="create",result="no_driver"} 1`,
		`tangram_agent_device_health{DCGM_FI_DRIVER_VERSION="580.159.03",GPU_I_ID="",GPU_I_PROFILE="",Hostname="node-1",UUID="GPU-1",container="",device="nvidia1",gpu="1",modelName="NVIDIA H200",namespace="",pci_bus_id="00000000:1C:00.0",pod="",state="Degraded"} 1`,
	} {
		if !slices.Contains(strings.Split(text, "\n"), want) {
			t.Errorf("missing: %s", want)
		}
	}
}

// BenchmarkScrape is one scrape of a node with 8 GPUs that report every field, each
// shared by 4 containers, text included.
func BenchmarkScrape(b *testing.B) {
	n := &node{holders: map[string][]Holder{}, processes: map[int]Holder{}}
	for i := range 8 {
		s := full(fmt.Sprintf("GPU-%d", i))
		for k := range 4 {
			pid := 10*i + k
			n.processes[pid] = Holder{"team", fmt.Sprintf("pod-%d", pid), "main"}
			n.holders[s.UUID] = append(n.holders[s.UUID], n.processes[pid])
			s.Processes = append(s.Processes, device.Process{PID: pid, MemoryMiB: 1000, SMPercent: 20})
		}
		n.readings = append(n.readings, Reading{Device: gpu(i), Sample: s, XIDs: map[int]uint64{31: 1}})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(n.options()), NewMetrics("node-1"))
	handler := Handler(registry)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
