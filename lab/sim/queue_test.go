package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

func TestReadJobs(t *testing.T) {
	const header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	jobs, err := ReadJobs("x", strings.NewReader("timestamp,duration,num_gpus,gpu_time,cluster,priority\n\n"+
		"2017-09-04 10:30:43,5.5,1,5.5,b,\n2017-09-04 10:30:41,2,8,16,a,-3\n"))
	want := []TimedJob{{0, 2e9, 8, "a", -3}, {2e9, 55e8, 1, "b", 0}}
	if err != nil || !slices.Equal(jobs, want) {
		t.Errorf("got %v, %v; want %v", jobs, err, want)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "f.csv: empty file"},
		{"no jobs", header, "f.csv: no jobs"},
		{"other columns", "a,b\n", `f.csv:1: column 1 is "a", want "timestamp"`},
		{"missing column", "timestamp,duration,num_gpus,gpu_time\n", "f.csv:1: column cluster is missing"},
		{"no time", header + "soon,1,1,1,a\n", `f.csv:2: column timestamp: "soon" is neither seconds nor like`},
		{"year", header + "0201-01-01 00:00:00,1,1,1,a\n", "f.csv:2: column timestamp: the year"},
		{"negative time", header + "-1,1,1,1,a\n", "f.csv:2: column timestamp"},
		{"no number", header + "1,x,1,1,a\n", `f.csv:2: column duration: "x" is not a number of seconds`},
		{"not a number", header + "1,NaN,1,1,a\n", "f.csv:2: column duration"},
		{"no duration", header + "1,0,1,1,a\n", `f.csv:2: column duration: "0" is not above 0`},
		{"half a GPU", header + "1,1,0.5,1,a\n", `f.csv:2: column num_gpus: "0.5" is not a whole number`},
		{"no GPU", header + "1,1,1,1,a\n1,1,0,1,a\n", "f.csv:3: column num_gpus: 0 is not in 1.."},
		{"no queue", header + "1,1,1,1,\n", "f.csv:2: column cluster: is empty"},
		{"priority", strings.TrimSpace(header) + ",priority\n1,1,1,1,a,high\n", `f.csv:2: column priority: "high"`},
		{"short row", header + "1,1\n", "f.csv: record on line 2: wrong number of fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadJobs("f.csv", strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestQueueConfig(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*QueueConfig)
		want string
	}{
		{"no trace", func(c *QueueConfig) { c.Jobs = "" }, "--jobs is missing"},
		{"odd GPUs", func(c *QueueConfig) { c.GPUs = 12 }, "--gpus 12 is not a multiple of --gpus-per-node 8"},
		{"large nodes", func(c *QueueConfig) { c.GPUsPerNode = 1000 }, "--gpus-per-node 1000 is not in"},
		{"policy", func(c *QueueConfig) { c.Policies = []string{"lottery"} }, `--policy "lottery" is unknown, want some of fifo, priority`},
		{"policy twice", func(c *QueueConfig) { c.Policies = []string{"drf", "drf"} }, `--policy "drf" is there twice`},
		{"runtimes", func(c *QueueConfig) { c.Runtimes = "x" }, `--runtimes "x" is unknown`},
		{"order", func(c *QueueConfig) { c.Order = "x" }, `--order: "x" is not fifo, priority`},
		{"aging", func(c *QueueConfig) { c.Aging = -1 }, "--aging -1ns is not above 0"},
		{"reservations", func(c *QueueConfig) { c.Reservations = -1 }, "--reservations -1 is negative"},
		{"patience", func(c *QueueConfig) { c.Patience = 0 }, "--patience 0s is not above 0"},
		{"html", func(c *QueueConfig) { c.HTML = "/no/such/folder/x.html" }, "--html"},
		{"no file", func(c *QueueConfig) { c.Jobs = "nowhere.csv" }, "--jobs: open nowhere.csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultQueueConfig()
			config.Jobs = "x.csv"
			c.set(&config)
			if err := RunQueue(config, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// replayed runs one policy.
func replayed(t *testing.T, policy string, config QueueConfig, jobs []TimedJob) *queueRun {
	t.Helper()
	r, err := newQueueRun(policy, &config, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.replay(func(float64) {}); err != nil {
		t.Fatal(err)
	}
	if r.witness.bad != 0 {
		t.Errorf("%s: %d violations", policy, r.witness.bad)
	}
	if err := r.ledger.Audit(); err != nil {
		t.Error(err)
	}
	return r
}

func generatedTimedJobs(t *testing.T, count int) []TimedJob {
	t.Helper()
	var text bytes.Buffer
	if err := GenerateJobs(&text, count, 1); err != nil {
		t.Fatal(err)
	}
	jobs, err := ReadJobs("generated", &text)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestEveryQueuePolicy: each runs to the end with whatever is known of runtimes, the
// same twice, and no job starts before it was submitted.
func TestEveryQueuePolicy(t *testing.T) {
	jobs := generatedTimedJobs(t, 600)
	for _, policy := range queuePolicyNames() {
		for _, runtimes := range runtimeNames {
			t.Run(policy+"/"+runtimes, func(t *testing.T) {
				config := DefaultQueueConfig()
				config.GPUs, config.Runtimes = 48, runtimes
				config.Preempt = policy == "tangram" && runtimes == Learned
				a, b := replayed(t, policy, config, jobs), replayed(t, policy, config, jobs)
				if !slices.Equal(a.outcomes, b.outcomes) || !slices.Equal(a.curve, b.curve) {
					t.Error("two runs differ")
				}
				for i, o := range a.outcomes {
					if o.started < jobs[i].Submitted || o.end != o.started+jobs[i].Duration {
						t.Fatalf("job %d %+v: %+v", i, jobs[i], o)
					}
				}
				if last := a.curve[len(a.curve)-1]; last.waiting != 0 || last.used != 0 {
					t.Errorf("at the end: %+v", last)
				}
			})
		}
	}
}

// TestQueueFigures: a case small enough to do by hand. One node of two GPUs; a's job
// takes both for 10 s, b's two jobs of one GPU come meanwhile.
func TestQueueFigures(t *testing.T) {
	const s = int64(1e9)
	jobs := []TimedJob{{0, 10 * s, 2, "a", 0}, {1 * s, 10 * s, 1, "b", 0}, {2 * s, 2 * s, 1, "b", 0}}
	config := DefaultQueueConfig()
	config.GPUs, config.GPUsPerNode = 2, 2
	got := replayed(t, "fifo", config, jobs).summary("fifo", 0)
	want := &QueueReport{
		Policy: "fifo", Runtimes: Declared, GPUs: 2, Jobs: 3,
		All: Times{3, Spread{13, 10, 19, 19}, Spread{round(17. / 3), 8, 9, 9}},
		BySize: map[string]Times{
			"1":   {2, Spread{14.5, 10, 19, 19}, Spread{8.5, 8, 9, 9}},
			"2-4": {1, Spread{10, 10, 10, 10}, Spread{0, 0, 0, 0}},
		},
		MakespanSeconds: 20, UtilizationPercent: 80, // 20 + 10 + 2 of 40
		ContendedSeconds: 9, ContendedUtilizationPercent: 100, // from 1 to 10
		// Both are entitled to 1 GPU for 9 s; a has 2, b none.
		Satisfaction: map[string]float64{"a": 2, "b": 0}, Jain: 0.5,
		// With one GPU each: a's job takes 20 s; b's take 10 and, from 11 on, 2.
		FinishTimeFairness: Rho{round((0.5 + 1.9 + 10./11) / 3), 1.9, round(100. / 3)},
		Decisions:          got.Decisions, DecisionsPerSecond: got.DecisionsPerSecond,
	}
	got.curve, got.delays = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestReservations: a gang of two nodes waits for a long run. Others pass it only if
// they end before; without reservations they delay it, and what is unknown may not
// pass at all.
func TestReservations(t *testing.T) {
	const s = int64(1e9)
	jobs := []TimedJob{
		{0, 100 * s, 1, "q", 0},    // runs
		{1 * s, 10 * s, 2, "q", 0}, // the gang
		{2 * s, 50 * s, 1, "q", 0}, // short
		{3 * s, 200 * s, 1, "q", 0},
	}
	for _, c := range []struct {
		policy, runtimes string
		want             []int64 // starts, in seconds
	}{
		{"fifo", Declared, []int64{0, 100, 110, 110}},
		{"priority", Declared, []int64{0, 252, 2, 52}},
		{"tangram", Declared, []int64{0, 100, 2, 110}},
		// Where no end is known, nodes are kept only for jobs that have waited long.
		{"tangram", Unknown, []int64{0, 252, 2, 52}},
	} {
		t.Run(c.policy+"/"+c.runtimes, func(t *testing.T) {
			config := DefaultQueueConfig()
			config.GPUs, config.GPUsPerNode, config.Runtimes = 2, 1, c.runtimes
			var got []int64
			for _, o := range replayed(t, c.policy, config, jobs).outcomes {
				got = append(got, o.started/s)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("starts %v, want %v", got, c.want)
			}
		})
	}
}

// TestPreemption: what matters more takes the place of what matters less, which begins
// anew.
func TestPreemption(t *testing.T) {
	const s = int64(1e9)
	jobs := []TimedJob{{0, 7200 * s, 2, "q", 0}, {3600 * s, 10 * s, 1, "q", 5}}
	config := DefaultQueueConfig()
	config.GPUs, config.GPUsPerNode, config.Preempt = 2, 2, true
	config.Order = "priority"
	r := replayed(t, "tangram", config, jobs)
	got := r.summary("tangram", 0)
	if got.Preemptions != 1 || got.LostGPUHours != 2 {
		t.Errorf("%d preemptions, %v GPU hours lost", got.Preemptions, got.LostGPUHours)
	}
	if r.outcomes[1].started != 3600*s || r.outcomes[0].started != 3610*s {
		t.Errorf("outcomes %+v", r.outcomes)
	}
	// It waited 10 s; an hour of running was in vain.
	if d := got.BySize["2-4"].Delay.Mean; d != 10 {
		t.Errorf("delay %v", d)
	}
}

// TestTooLarge: a job larger than the cluster is counted and left out.
func TestTooLarge(t *testing.T) {
	jobs := []TimedJob{{0, 5, 64, "q", 0}, {0, 5, 1, "q", 0}}
	config := DefaultQueueConfig()
	config.GPUs = 32
	got := replayed(t, "fifo", config, jobs).summary("fifo", 0)
	if got.Rejected != 1 || got.All.Jobs != 1 || got.All.Delay.Mean != 0 {
		t.Errorf("%+v", got)
	}
}

// TestWitness: it sees what must not happen, however it comes about.
func TestWitness(t *testing.T) {
	at := func(h model.HolderID, node model.NodeID, slots model.Mask) gang.Placement {
		return gang.Placement{Holder: h, Node: node, Grant: place.Grant{Set: slots}}
	}
	two := func(int) int { return 2 }
	for _, c := range []struct {
		name string
		do   func(w *witness)
		bad  bool
	}{
		{"nothing wrong", func(w *witness) {
			w.start(1, 2, []gang.Placement{at("a", "n1", 0b11), at("b", "n1", 0b1100)}, two)
			w.leave(1, "a")
			w.leave(1, "b")
			w.start(2, 1, []gang.Placement{at("c", "n1", 0b11)}, two)
			w.leave(2, "c")
		}, false},
		{"a device of two jobs", func(w *witness) {
			w.start(1, 1, []gang.Placement{at("a", "n1", 0b11)}, two)
			w.start(2, 1, []gang.Placement{at("b", "n1", 0b110)}, two)
			w.leave(1, "a")
			w.leave(2, "b")
		}, true},
		{"too few devices", func(w *witness) {
			w.start(1, 1, []gang.Placement{at("a", "n1", 0b1)}, two)
			w.leave(1, "a")
		}, true},
		{"too few members", func(w *witness) {
			w.start(1, 2, []gang.Placement{at("a", "n1", 0b11)}, two)
		}, true},
		{"left alone", func(w *witness) {
			w.start(1, 2, []gang.Placement{at("a", "n1", 0b11), at("b", "n2", 0b11)}, two)
			w.leave(1, "b")
		}, true},
		{"leaves twice", func(w *witness) {
			w.start(1, 1, []gang.Placement{at("a", "n1", 0b11)}, two)
			w.leave(1, "a")
			w.leave(1, "a")
		}, true},
		{"not in the ledger", func(w *witness) {
			w.start(1, 1, []gang.Placement{at("a", "n1", 0b11)}, two)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWitness()
			c.do(w)
			w.check(ledger.New(), false)
			if (w.bad > 0) != c.bad {
				t.Errorf("%d violations", w.bad)
			}
		})
	}
	w := newWitness() // one that was not reported
	l := ledger.New()
	l.Put("n1", ledger.Claim{Holder: "ghost", Vendor: model.NVIDIA, Count: 1})
	if w.check(l, true); w.bad == 0 {
		t.Error("a holder in the ledger that never started was not seen")
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}, {[]float64{1, 3, -1}, 0.8}} {
		if got := jain(c.values); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("jain(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

// TestBinned: the mean of a step curve, whatever the steps.
func TestBinned(t *testing.T) {
	curve := []moment{{0, 2, 0}, {timeBins / 2, 6, 0}, {timeBins * 3, 0, 0}}
	got := binned(curve, timeBins*4, func(m moment) float64 { return float64(m.waiting) })
	sum := 0.0
	for _, v := range got {
		sum += v
	}
	if want := (2*0.5 + 6*2.5) / 4 * timeBins; math.Abs(sum-want) > 1e-6 {
		t.Errorf("sum %v, want %v", sum, want)
	}
	curve = nil // a constant stays one, wherever steps and edges meet
	for at := range int64(1000) {
		curve = append(curve, moment{at * 8388607e9 / 1000, 1, 0})
	}
	for bin, v := range binned(curve, 8388607e9, func(m moment) float64 { return float64(m.waiting) }) {
		if math.Abs(v-1) > 1e-6 {
			t.Fatalf("bin %d: %v", bin, v)
		}
	}
}

// TestQueueOutputs: the command writes JSON, a table and a page.
func TestQueueOutputs(t *testing.T) {
	folder := t.TempDir()
	trace := filepath.Join(folder, "jobs.csv")
	run := func(args ...string) string {
		t.Helper()
		cmd := NewCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out.String()
	}
	run("generate", "queue", "--jobs", trace, "--job-count", "200")
	page := filepath.Join(folder, "report.html")
	var reports []QueueReport
	text := run("queue", "--jobs", trace, "--gpus", "32", "--policy", "fifo,tangram", "--json", "--html", page)
	if err := json.Unmarshal([]byte(text), &reports); err != nil || len(reports) != 2 || reports[1].All.Jobs != 200 {
		t.Errorf("%v: %s", err, text)
	}
	html, err := os.ReadFile(page)
	if err != nil || strings.Count(string(html), "<svg") != 3 || strings.Contains(string(html), "http") {
		t.Errorf("page: %v", err)
	}
	for _, name := range []string{"fifo", "tangram"} {
		if about := aboutQueuePolicy(name); about == "" || !strings.Contains(string(html), about) {
			t.Errorf("the page does not say what %s is", name)
		}
	}
	if table := run("queue", "--jobs", trace, "--gpus", "16", "--policy", "tangram"); !strings.Contains(table, "larger than the cluster") || !strings.Contains(table, "tangram") {
		t.Errorf("table: %s", table)
	}
}

// TestQueueSettingsOfTangram: a setting without effect is refused, not ignored.
func TestQueueSettingsOfTangram(t *testing.T) {
	for _, flag := range []string{"--order=sjf", "--aging=1h", "--preempt", "--reservations=2", "--patience=1h"} {
		cmd := NewCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs([]string{"queue", "--jobs", "none.csv", "--policy", "fifo,drf", flag})
		name, _, _ := strings.Cut(flag, "=")
		if err := cmd.Execute(); err == nil || err.Error() != name+" is a setting of tangram, which --policy fifo,drf does not name" {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestQueuePolicies: every policy is told apart on pages and has its row in the guide.
func TestQueuePolicies(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "simulate-queue.md"))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string]string{}
	for _, name := range queuePolicyNames() {
		if _, err := newQueuePolicy(name, &QueueConfig{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if other, taken := colours[colour(name)]; taken {
			t.Errorf("%s has the colour of %s", name, other)
		}
		colours[colour(name)] = name
		if !strings.Contains(string(guide), fmt.Sprintf("\n| `%s` |", name)) {
			t.Errorf("docs/guides/simulate-queue.md has no row for `%s`", name)
		}
	}
}
