package sim

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestArrivals: every pod once, then drawn ones up to the load; cut when the
// trace asks for more; the same for the same seed only.
func TestArrivals(t *testing.T) {
	trace := testTrace(t)
	demand := func(order []int32) (sum int64) {
		for _, pod := range order {
			sum += trace.Pods[pod].Class.Demand()
		}
		return sum
	}
	own := float64(trace.Demand()) / float64(trace.Capacity())
	for _, load := range []float64{own / 2, own * 1.5} {
		order := arrivals(trace, load, 7)
		goal := load * float64(trace.Capacity())
		if got := float64(demand(order)); got < goal || got > goal+8000 {
			t.Errorf("load %v: demand %v, want %v or one pod more", load, got, goal)
		}
		if !slices.Equal(order, arrivals(trace, load, 7)) || slices.Equal(order, arrivals(trace, load, 8)) {
			t.Errorf("load %v: seeds do not decide", load)
		}
		if load < own {
			continue
		}
		seen := map[int32]bool{}
		for _, pod := range order[:len(trace.Pods)] {
			seen[pod] = true
		}
		if len(seen) != len(trace.Pods) {
			t.Errorf("load %v: %d of %d pods come first", load, len(seen), len(trace.Pods))
		}
	}
}

// TestEveryPolicy: each runs, is deterministic, over-commits nothing and never
// leaves less than what was not asked for.
func TestEveryPolicy(t *testing.T) {
	trace := testTrace(t)
	config := DefaultPackConfig()
	config.At = []float64{0.5, 1.3}
	for _, policy := range packPolicyNames {
		t.Run(policy, func(t *testing.T) {
			newReplay := func(policy string, seed uint64) *packReplay {
				return &packReplay{trace: trace, config: &config, policy: policy, seed: seed, tell: func(float64) {}}
			}
			r, err := newReplay(policy, 42).static()
			if err != nil {
				t.Fatal(err)
			}
			again, err := newReplay(policy, 42).static()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.at, again.at) || !slices.Equal(r.end, again.end) {
				t.Error("two runs of one seed differ")
			}
			if r.at[0].unallocated < 50 || r.at[0].unallocated > 70 || r.at[1].unallocated > 25 {
				t.Errorf("unallocated %v", r.at)
			}
			var idle int64
			for i := range r.end {
				s := &r.end[i]
				idle += s.Idle()
				if s.CPU < 0 || s.Memory < 0 || s.Idle() > trace.Nodes[i].Empty.Idle() {
					t.Errorf("node %d over-committed: %+v", i, s)
				}
			}
			if got := 100 * float64(idle) / float64(trace.Capacity()); math.Abs(got-r.at[1].unallocated) > 1e-9 {
				t.Errorf("%v %% idle, measured %v", got, r.at[1].unallocated)
			}
		})
	}
}

// TestTangramPacksBest, of all policies, on a trace it was not tuned on, with
// the workload learned or told.
func TestTangramPacksBest(t *testing.T) {
	trace := testTrace(t).Times(4)
	config := DefaultPackConfig()
	config.At, config.Seeds = []float64{1.0, 1.3}, 2
	config.Policies = packPolicyNames
	reports, err := simulatePack(trace, &config, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	best := reports[len(reports)-1]
	for _, r := range reports[:len(reports)-1] {
		for load, f := range r.At {
			if mine := best.At[load].UnallocatedPercent.Mean; mine > f.UnallocatedPercent.Mean {
				t.Errorf("at %s: %s leaves %v, tangram %v", load, r.Policy, f.UnallocatedPercent, mine)
			}
		}
	}
	config.Workload, config.Policies = Oracle, []string{"tangram"}
	told, err := simulatePack(trace, &config, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for load, f := range told[0].At {
		if math.Abs(f.UnallocatedPercent.Mean-best.At[load].UnallocatedPercent.Mean) > 1 {
			t.Errorf("at %s: told %v, learned %v", load, f.UnallocatedPercent, best.At[load].UnallocatedPercent)
		}
	}
}

// TestLifetimes: deterministic; few wait in an empty fleet (pods that fit only on
// a scarce model), many in a crowded one; the fleet is idle as far as it is not asked for.
func TestLifetimes(t *testing.T) {
	trace := testTrace(t)
	config := DefaultPackConfig()
	config.Lifetimes, config.At = true, []float64{0.3, 1.5}
	for _, policy := range packPolicyNames {
		t.Run(policy, func(t *testing.T) {
			newReplay := func(policy string, seed uint64) *packReplay {
				return &packReplay{trace: trace, config: &config, policy: policy, seed: seed, tell: func(float64) {}}
			}
			r, err := newReplay(policy, 21).timed()
			if err != nil {
				t.Fatal(err)
			}
			again, err := newReplay(policy, 21).timed()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.at, again.at) || !slices.Equal(r.wait, again.wait) {
				t.Error("two runs of one seed differ")
			}
			if math.Abs(r.at[0].unallocated-70) > 10 || r.wait[0] > 0.3 || r.wait[0] > r.wait[1] {
				t.Errorf("at 0.3: %v %% unallocated, wait %v", r.at[0].unallocated, r.wait[0])
			}
			if r.at[1].unallocated > 15 || r.wait[1] < 0.1 {
				t.Errorf("at 1.5: %v %% unallocated, wait %v", r.at[1].unallocated, r.wait[1])
			}
		})
	}
}

// TestClusterUndo: end undoes start, and the measures follow.
func TestClusterUndo(t *testing.T) {
	trace := testTrace(t)
	f := NewFragmentation(trace.Workload(), true)
	rapid.Check(t, func(t *rapid.T) {
		c, err := newCluster(trace, "random", Online, rapid.Uint64().Draw(t, "seed"), f)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(c.shapes)
		var all []held
		for range rapid.IntRange(1, 60).Draw(t, "pods") {
			if h, ok := c.start(rapid.IntRange(0, len(trace.Pods)-1).Draw(t, "pod")); ok {
				all = append(all, h)
			}
		}
		fresh := 0.0
		for i := range c.shapes {
			fresh += f.Of(&c.shapes[i])
		}
		if math.Abs(fresh-c.meters[0].total) > 1e-6*(1+fresh) {
			t.Fatalf("F is %v, kept %v", fresh, c.meters[0].total)
		}
		for len(all) > 0 {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "end")
			c.end(all[i])
			all = slices.Delete(all, i, i+1)
		}
		for i := range c.shapes {
			if c.shapes[i] != before[i] {
				t.Fatalf("node %d is %+v", i, c.shapes[i])
			}
		}
	})
}

// TestJSONShape is the contract with programs that read the output.
func TestJSONShape(t *testing.T) {
	config := DefaultPackConfig()
	config.Nodes, config.Pods, config.Seeds, config.JSON = testNodes, testPods, 2, true
	config.At = []float64{0.8, 1.0}
	config.Policies = []string{"fgd"}
	var out bytes.Buffer
	if err := RunPack(config, &out, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	type stat struct{ Mean, Std *float64 }
	var got struct {
		Policy             string
		Seeds              int
		At                 map[string]map[string]stat
		DecisionsPerSecond float64
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Policy != "fgd" || got.Seeds != 2 || len(got.At) != 2 || got.DecisionsPerSecond <= 0 {
		t.Errorf("got %+v", got)
	}
	for _, load := range []string{"0.8", "1.0"} {
		for _, field := range []string{"unallocatedPercent", "fragPercent"} {
			if s := got.At[load][field]; s.Mean == nil || s.Std == nil {
				t.Errorf("at %s: no %s", load, field)
			}
		}
	}
	config.Policies = []string{"fgd", "tangram"}
	out.Reset()
	if err := RunPack(config, &out, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list) != 2 {
		t.Errorf("%d reports, %v", len(list), err)
	}
}

// TestPage: one file that needs no other, with a curve per policy.
func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	config := DefaultPackConfig()
	config.Nodes, config.Pods, config.Seeds, config.HTML = testNodes, testPods, 1, file
	config.Policies = []string{"bestfit", "tangram"}
	if err := RunPack(config, new(bytes.Buffer), new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, bad := range []string{"http:", "https:", "ZgotmplZ", "NaN", "src=", "@import"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if got := strings.Count(text, `stroke="#d9480f"`); got != 3 {
		t.Errorf("tangram has %d curves, want 3", got)
	}
	if !strings.Contains(text, `"node-0059"`) {
		t.Error("the map lacks a node")
	}
}

// TestSVG: a picture of its own with a named curve per policy.
func TestSVG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "curves.svg")
	config := DefaultPackConfig()
	config.Nodes, config.Pods, config.Seeds, config.SVG = testNodes, testPods, 1, file
	config.Policies = []string{"bestfit", "fgd", "tangram"}
	if err := RunPack(config, new(bytes.Buffer), new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	for _, want := range []string{`xmlns="http://www.w3.org/2000/svg"`, ">130%<", ">bestfit ", ">fgd ", ">tangram "} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	for _, bad := range []string{"NaN", "ZgotmplZ", "href"} {
		if bytes.Contains(text, []byte(bad)) {
			t.Errorf("the picture has %q", bad)
		}
	}
	if got := bytes.Count(text, []byte(`class="line"`)); got != 3 {
		t.Errorf("%d curves, want 3", got)
	}
}

// TestLostChart begins shortly before the first policy loses anything.
func TestLostChart(t *testing.T) {
	good, bad := &PackReport{Policy: "tangram"}, &PackReport{Policy: "random"}
	for load := range 131 {
		good.curve = append(good.curve, sample{unallocated: max(float64(100-load), 3)})
		bad.curve = append(bad.curve, sample{unallocated: max(float64(100-load), 25)})
	}
	c := lostChart([]*PackReport{good, bad})
	if first, last := c.XTicks[0].Label, c.XTicks[len(c.XTicks)-1].Label; first != "60%" || last != "130%" {
		t.Errorf("from %s to %s, want 60%% to 130%%", first, last)
	}
	if c.Lines[0].Last != 3 || c.Lines[1].Last != 25 || c.Lines[1].Label.Label != "random 25.0" {
		t.Errorf("lines end at %v and %v", c.Lines[0].Last, c.Lines[1].Last)
	}
}

// TestChartLabels: labels keep their distance and stay in the picture, in the order
// of the curves.
func TestChartLabels(t *testing.T) {
	for _, ends := range [][]float64{{3, 3.01, 3.02, 90}, {0, 0, 0, 0, 0, 0, 0}, {100, 100, 99, 98, 100, 1}} {
		var reports []*PackReport
		for i, end := range ends {
			reports = append(reports, &PackReport{Policy: packPolicyNames[i], curve: []sample{{unallocated: 0}, {unallocated: end}}})
		}
		c := loadChart("", "", 520, reports, 0, func(_ int, s sample) float64 { return s.unallocated })
		for i, a := range c.Lines {
			if a.Label.At < c.Top-1e-6 || a.Label.At > c.Bottom+1e-6 {
				t.Errorf("%v: label %d at %v is outside", ends, i, a.Label.At)
			}
			for j, b := range c.Lines[:i] {
				if math.Abs(a.Label.At-b.Label.At) < labelGap-1e-6 {
					t.Errorf("%v: labels %d and %d touch", ends, i, j)
				}
				if ends[i] > ends[j] && a.Label.At > b.Label.At {
					t.Errorf("%v: labels %d and %d changed places", ends, i, j)
				}
			}
		}
	}
}

func TestStat(t *testing.T) {
	if got := newStat([]float64{2, 4, 4, 4, 5, 5, 7, 9}); got != (Stat{5, 2}) {
		t.Errorf("got %v, want 5±2", got)
	}
	for load, want := range map[float64]string{1: "1.0", 0.8: "0.8", 1.25: "1.25"} {
		if got := loadKey(load); got != want {
			t.Errorf("load %v is %q, want %q", load, got, want)
		}
	}
}
