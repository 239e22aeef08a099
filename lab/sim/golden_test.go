package sim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// The golden files in testdata/golden hold every figure that the simulators print, but
// those of time spent: a change of core that is not meant to change decisions leaves
// them equal to the digit. "make golden TRACES=dir" compares all of them, with
// ARGS=-update it writes them anew.

// TestGolden compares the figures of generated traces.
func TestGolden(t *testing.T) {
	amd64Only(t)
	jobs := generatedTimedJobs(t, 400)
	for i := range jobs {
		jobs[i].Priority = int32(i % 3)
	}
	for _, runtimes := range runtimeNames {
		t.Run("queue-"+runtimes, func(t *testing.T) {
			config := DefaultQueueConfig()
			config.GPUs, config.Runtimes = 48, runtimes
			goldenQueue(t, "generated-queue-"+runtimes, config, jobs, slices.Concat(queuePolicyNames(), tangramVariants))
		})
	}
	config := DefaultPackConfig()
	config.Policies, config.Seeds = packPolicyNames, 2
	goldenPack(t, "generated-pack", config, testTrace(t))
	config.Policies, config.Workload = []string{"tangram"}, Oracle
	goldenPack(t, "generated-pack-oracle", config, testTrace(t))
	config = DefaultPackConfig()
	config.Policies, config.Seeds, config.Lifetimes, config.At = []string{"fgd", "tangram"}, 1, true, []float64{1.0}
	goldenPack(t, "generated-pack-lifetimes", config, testTrace(t))
}

// TestGoldenTraces compares the figures of the public traces: philly/philly.csv by month
// and the pod lists openb/openb_pod_list_*.csv.
func TestGoldenTraces(t *testing.T) {
	amd64Only(t)
	folder := os.Getenv("TANGRAM_TRACES")
	if folder == "" {
		t.Skip("the public traces are not part of the repository; make golden TRACES=dir compares them, where dir has philly/philly.csv and openb/*.csv (docs/benchmarks.md)")
	}
	for _, run := range []struct {
		month    string
		gpus     int
		policies []string
		runtimes []string
	}{
		{"2017-09", 288, slices.Concat(tracePolicies, tangramVariants), []string{Declared, Learned}},
		{"2017-09", 384, []string{"tangram"}, []string{Declared, Learned}},
		// Evictions on all of October would take minutes.
		{"2017-10", 288, tracePolicies, []string{Declared, Learned}},
		{"2017-10", 384, []string{"tangram"}, []string{Declared}},
	} {
		jobs := month(t, filepath.Join(folder, "philly", "philly.csv"), run.month)
		for _, runtimes := range run.runtimes {
			name := fmt.Sprintf("philly-%s-%d-%s", run.month, run.gpus, runtimes)
			t.Run(name, func(t *testing.T) {
				config := DefaultQueueConfig()
				config.GPUs, config.Runtimes = run.gpus, runtimes
				goldenQueue(t, name, config, jobs, run.policies)
			})
		}
	}
	nodes := filepath.Join(folder, "openb", "openb_node_list_gpu_node.csv")
	for _, list := range []string{"default", "cpu050", "cpu200", "gpushare40", "gpushare80", "gpuspec10", "gpuspec25", "multigpu20", "multigpu40"} {
		trace, err := ReadTrace(nodes, filepath.Join(folder, "openb", "openb_pod_list_"+list+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		config := DefaultPackConfig()
		goldenPack(t, "openb-"+list, config, trace)
		if list == "gpuspec25" {
			config.Policies, config.Seeds = packPolicyNames, 2
			goldenPack(t, "openb-"+list+"-policies", config, trace)
			config = DefaultPackConfig()
			config.Seeds, config.Lifetimes, config.At = 1, true, []float64{1.0}
			goldenPack(t, "openb-"+list+"-lifetimes", config, trace)
		}
	}
}

// amd64Only skips where sums of products may be rounded otherwise.
func amd64Only(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the golden figures are those of amd64: other processors fuse multiplication and addition, which moves last digits")
	}
}

// month reads the jobs of a trace that were submitted in a month.
func month(t *testing.T, file, prefix string) []TimedJob {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	header, rows, _ := strings.Cut(string(text), "\n")
	kept := header + "\n"
	for row := range strings.Lines(rows) {
		if strings.HasPrefix(row, prefix) {
			kept += row
		}
	}
	jobs, err := ReadJobs(file, strings.NewReader(kept))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// tracePolicies are the columns of the public traces' golden files, which only those who have
// the traces can write: a new order of jobs is compared on generated ones.
var tracePolicies = []string{"fifo", "priority", "sjf", "roundrobin", "drf", "tangram"}

// tangramVariants are settings of tangram that golden files have a column for.
var tangramVariants = []string{"tangram-preempt", "tangram-sjf", "tangram-reserve4"}

// goldenQueue replays policies and variants of tangram on a trace.
func goldenQueue(t *testing.T, file string, config QueueConfig, jobs []TimedJob, policies []string) {
	t.Helper()
	g := golden{}
	for _, name := range policies {
		config := config
		policy, variant, _ := strings.Cut(name, "-")
		switch variant {
		case "preempt":
			config.Preempt = true
		case "sjf":
			config.Order = variant
		case "reserve4":
			config.Reservations = 4
		}
		r := replayed(t, policy, config, jobs)
		var all []int64
		for _, o := range r.outcomes {
			all = append(all, o.started, o.end, o.ran, int64(o.runs))
		}
		g.add(t, name, r.summary(policy, 0), digest(t, all))
	}
	g.compare(t, file)
}

// goldenPack packs a trace under the policies of a config.
func goldenPack(t *testing.T, file string, config PackConfig, trace *Trace) {
	t.Helper()
	t.Run(file, func(t *testing.T) {
		config.Nodes, config.Pods = "nodes", "pods"
		if err := config.complete(); err != nil {
			t.Fatal(err)
		}
		reports, err := simulatePack(trace, &config, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		g := golden{}
		for _, r := range reports {
			g.add(t, r.Policy, r, digest(t, r.last.end)) // with lifetimes nothing is kept of the end
		}
		g.compare(t, file)
	})
}

// digest tells apart decisions whose figures are equal: when each job ran, or what is
// left on each node.
func digest(t *testing.T, values any) string {
	t.Helper()
	h := fnv.New64a()
	if err := binary.Write(h, binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// golden is a table: a row for each figure, a column for each policy.
type golden struct {
	columns []string
	rows    map[string]map[string]string // by figure and column
}

// timings are figures that differ from run to run.
var timings = []string{"decisionsPerSecond", "wallSeconds"}

// add adds a column: the JSON form of a report, and a digest.
func (g *golden) add(t *testing.T, column string, report any, digest string) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range timings {
		delete(fields, name)
	}
	fields["digest"] = digest
	g.columns = append(g.columns, column)
	g.flatten(column, "", fields)
}

func (g *golden) flatten(column, path string, fields map[string]any) {
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			g.flatten(column, path+name+".", inner)
			continue
		}
		g.set(path+name, column, fmt.Sprint(value))
	}
}

func (g *golden) set(figure, column, value string) {
	if g.rows == nil {
		g.rows = map[string]map[string]string{}
	}
	if g.rows[figure] == nil {
		g.rows[figure] = map[string]string{}
	}
	g.rows[figure][column] = value
}

// String is the table as text, figures in order.
func (g *golden) String() string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\t"+strings.Join(g.columns, "\t"))
	for _, figure := range slices.Sorted(maps.Keys(g.rows)) {
		values := []string{figure}
		for _, column := range g.columns {
			value := g.rows[figure][column]
			if value == "" {
				value = "-"
			}
			values = append(values, value)
		}
		fmt.Fprintln(w, strings.Join(values, "\t"))
	}
	w.Flush()
	return out.String()
}

// compare reports each figure that is not what the golden file says; with -update it
// writes the file.
func (g *golden) compare(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name+".txt")
	got := g.String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(text) {
		return
	}
	t.Errorf("%s differs; make golden ARGS=-update accepts the new figures", file)
	was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	columns := strings.Fields(is[0])
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) {
			t.Errorf("%d lines, want %d", len(is), len(was))
			break
		}
		a, b := strings.Fields(was[i]), strings.Fields(is[i])
		if len(a) != len(b) || len(a) != len(columns) || a[0] != b[0] {
			if was[i] != is[i] {
				t.Errorf("line %d is %q, want %q", i+1, is[i], was[i])
			}
			continue
		}
		for c := range a {
			if a[c] != b[c] {
				t.Errorf("%s of %s is %s, want %s", a[0], columns[c], b[c], a[c])
			}
		}
	}
}
