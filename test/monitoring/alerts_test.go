package monitoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/monitoring"
)

const (
	rulesFolder = "../../monitoring/rules"
	casesFolder = "testdata/rules"
	runbookBase = "https://github.com/tangram-dev/tangram/blob/main/docs/runbooks/"
	runbooks    = "../../docs/runbooks"
)

// rule is an alert or a recording of monitoring/rules.
type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rules are all of them, in order.
func rules(t *testing.T) (out []rule) {
	t.Helper()
	for _, f := range monitoring.Rules() {
		var file struct {
			Groups []struct {
				Name     string `json:"name"`
				Interval string `json:"interval"`
				Rules    []rule `json:"rules"`
			} `json:"groups"`
		}
		if err := yaml.UnmarshalStrict(f.Data, &file); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		for _, g := range file.Groups {
			out = append(out, g.Rules...)
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no rules")
	}
	return out
}

func alerts(t *testing.T) []rule {
	return slices.DeleteFunc(rules(t), func(r rule) bool { return r.Alert == "" })
}

// withRecorded adds the metrics that the rules record, with the labels that their
// expressions keep.
func withRecorded(t *testing.T, known metricLabels) metricLabels {
	t.Helper()
	for _, r := range rules(t) {
		if r.Record == "" {
			continue
		}
		u, err := parse(t, r.Expr)
		if err != nil {
			t.Fatalf("%s: %v", r.Record, err)
		}
		known[r.Record] = slices.Concat(known[r.Record], u.grouping, slices.Collect(maps.Keys(r.Labels)))
	}
	return known
}

// cases are the files for promtool, as far as this package reads them.
type caseFile struct {
	RuleFiles          []string `json:"rule_files"`
	EvaluationInterval string   `json:"evaluation_interval"`
	Tests              []struct {
		Name        string `json:"name"`
		Interval    string `json:"interval"`
		InputSeries []struct {
			Series string `json:"series"`
			Values string `json:"values"`
		} `json:"input_series"`
		Expressions []struct {
			Expr     string `json:"expr"`
			EvalTime string `json:"eval_time"`
			Samples  []struct {
				Labels string  `json:"labels"`
				Value  float64 `json:"value"`
			} `json:"exp_samples"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

// outcome is what the cases say of one alert.
type outcome struct {
	// fires are the labels of the alerts that are expected, one text for each.
	fires []string
	// silent are the metrics of the cases in which it stays silent, of each case.
	silent [][]string
}

var (
	casesAsk = regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)
	seriesID = regexp.MustCompile(`^(?:\{"([^"]+)"|([^{]+))`)
)

func outcomes(t *testing.T) map[string]*outcome {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(casesFolder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %d files", err, len(paths))
	}
	out := map[string]*outcome{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file caseFile
		if err := yaml.UnmarshalStrict(data, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, c := range file.Tests {
			var names []string
			for _, s := range c.InputSeries {
				id := seriesID.FindStringSubmatch(s.Series)
				names = append(names, id[1]+id[2])
			}
			for _, e := range c.Expressions {
				asked := casesAsk.FindStringSubmatch(e.Expr)
				if asked == nil {
					t.Fatalf("%s: %s: %q does not ask for ALERTS", path, c.Name, e.Expr)
				}
				o := out[asked[1]]
				if o == nil {
					o = &outcome{}
					out[asked[1]] = o
				}
				if len(e.Samples) == 0 {
					o.silent = append(o.silent, names)
				}
				for _, s := range e.Samples {
					o.fires = append(o.fires, s.Labels)
				}
			}
		}
	}
	return out
}

// TestRulesLoad: Prometheus takes the rules, and finds no doubles in them.
func TestRulesLoad(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(rulesFolder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %d files", err, len(paths))
	}
	if out, err := promtool(t, ".", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, paths...)...); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := promtool(t, "../../monitoring", "check", "config", "--syntax-only", "prometheus.yaml"); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestCases: the alerts fire and stay silent as the cases say.
func TestCases(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(casesFolder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %d files", err, len(paths))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			if out, err := promtool(t, casesFolder, "test", "rules", filepath.Base(path)); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

var usedLabel = regexp.MustCompile(`\$labels\.(\w+)`)

// TestEveryAlert: each alert can be acted upon, is tested both ways, and is about metrics
// that exist.
func TestEveryAlert(t *testing.T) {
	known := withRecorded(t, exported())
	tested := outcomes(t)
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		t.Run(a.Alert+"/"+a.Labels["severity"], func(t *testing.T) {
			seen[a.Alert] = true
			checkWords(t, a)
			u, err := parse(t, a.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range known.problems(u) {
				t.Error(p)
			}
			checkTested(t, a, tested[a.Alert], basics(t, u))
		})
	}
	for name := range tested {
		if !seen[name] {
			t.Errorf("a case asks for the alert %s, which does not exist", name)
		}
	}
}

func checkWords(t *testing.T, a rule) {
	if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
		t.Errorf("severity is %q", a.Labels["severity"])
	}
	for _, key := range []string{"summary", "description"} {
		if a.Annotations[key] == "" {
			t.Errorf("has no %s", key)
		}
	}
	if want := runbookBase + a.Alert + ".md"; a.Annotations["runbook_url"] != want {
		t.Errorf("runbook_url is %q, want %q", a.Annotations["runbook_url"], want)
	}
	if _, err := os.Stat(filepath.Join(runbooks, a.Alert+".md")); err != nil {
		t.Errorf("has no runbook: %v", err)
	}
}

// checkTested wants a case in which the alert fires with its severity and with every label
// that its words name, and one in which it is silent although its metrics are there.
func checkTested(t *testing.T, a rule, o *outcome, metrics []string) {
	if o == nil {
		t.Fatalf("no case in %s", casesFolder)
	}
	severity := fmt.Sprintf("severity=%q", a.Labels["severity"])
	fires := slices.DeleteFunc(slices.Clone(o.fires), func(labels string) bool { return !strings.Contains(labels, severity) })
	if len(fires) == 0 {
		t.Errorf("no case in which it fires with %s", severity)
	}
	for _, text := range a.Annotations {
		for _, used := range usedLabel.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(fires, func(labels string) bool { return strings.Contains(labels, used[1]+"=") }) {
				t.Errorf("%q names the label %s, which no alert of the cases has", text, used[1])
			}
		}
	}
	silent := slices.ContainsFunc(o.silent, func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(metrics, n) })
	})
	if !silent {
		t.Errorf("no case in which it stays silent although one of %v is there", metrics)
	}
}

// basics are the metrics that an expression uses, those behind recorded ones included.
func basics(t *testing.T, u use) (out []string) {
	t.Helper()
	recorded := map[string][]string{}
	for _, r := range rules(t) {
		if r.Record != "" {
			recorded[r.Record] = append(recorded[r.Record], r.Expr)
		}
	}
	for name := range u.metrics {
		out = append(out, name)
		for _, expr := range recorded[name] {
			inner, err := parse(t, expr)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Collect(maps.Keys(inner.metrics))...)
		}
	}
	slices.Sort(out)
	return out
}

// TestRecordings use metrics that exist.
func TestRecordings(t *testing.T) {
	known := exported()
	for _, r := range rules(t) {
		if r.Record == "" {
			continue
		}
		u, err := parse(t, r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range known.problems(u) {
			t.Errorf("%s: %s", r.Record, p)
		}
	}
}

// documented are the alerts that the requirement documents name or describe.
var documented = map[string]string{
	"GPUHighUtilization":  "001",
	"GPUHighTemperature":  "001, 003 6.2",
	"GPUMemoryAlmostFull": "001",
	"GPUXIDError":         "001, 003 8.2",
	// Of the table in 001: thresholds without a name.
	"GPUMemoryBandwidthSaturated": "001",
	"GPUPowerNearLimit":           "001",
	"GPUSchedulingLatencyHigh":    "003 6.3, 9.3",
	"GPUUtilizationLow":           "003 6.3, 9.3",
	"GPUNodeUnhealthy":            "003 8.1, 9.3",
	// 003 6.2: thresholds without a name.
	"GPUTrainingCompletionRateLow": "003 6.2",
	"GPUInferenceLatencyHigh":      "003 6.2",
	"GPUAllocationTimeHigh":        "003 6.2",
	"GPUSchedulerAvailabilityLow":  "003 1.3, 6.2",
	"GPUMTTRHigh":                  "003 1.3, 6.2",
	"GPUMTBFLow":                   "003 1.3, 6.2",
	"GPUFragmentationHigh":         "003 1.3, 6.2",
	// 000 7.2.1: failure, shortage, slowness, unfairness; and quotas.
	"GPUSchedulingFailures":            "000, 003 1.3",
	"GPUResourcesInsufficient":         "000, 003 1.4",
	"GPUSchedulingPerformanceDegraded": "000",
	"GPUQueueShareUnfair":              "000",
	"GPUQueueQuotaExhausted":           "000",
}

// TestDocumented: every alert of the documents is there, and the page that lists them says
// where each comes from.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(runbooks, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range alerts(t) {
		names[a.Alert] = true
	}
	for name, where := range documented {
		if !names[name] {
			t.Errorf("%s of document %s is missing", name, where)
		}
	}
	for name := range names {
		row := regexp.MustCompile(`(?m)^\| \[` + name + `\]\(` + name + `\.md\) \| [^|]+ \| [^|]+ \| ([^|]+) \|$`).FindSubmatch(page)
		if row == nil {
			t.Errorf("%s has no row in the table of docs/runbooks/README.md", name)
		} else if where := documented[name]; where != "" && !strings.Contains(string(row[1]), where) {
			t.Errorf("%s: its row says it comes from %q, want %q", name, row[1], where)
		}
	}
}

// TestXIDs: the alert of device faults leaves out the errors that the agent's own table
// holds against programs, and those it ignores; the other one has the former.
func TestXIDs(t *testing.T) {
	table := health.DefaultTable()
	lists := regexp.MustCompile(`xid(=~|!~)"([^"]+)"`)
	checked := 0
	for _, a := range alerts(t) {
		if a.Alert != "GPUXIDError" {
			continue
		}
		list := lists.FindStringSubmatch(a.Expr)
		if list == nil {
			t.Fatalf("%s: names no XIDs", a.Expr)
		}
		named := regexp.MustCompile("^(?:" + list[2] + ")$") // as Prometheus anchors
		for xid := 1; xid <= 200; xid++ {
			class := table.Class(xid)
			want := class == health.Application || class == health.AskDriver
			if a.Labels["severity"] == "critical" {
				want = !want && class != health.Ignore
			}
			fires := named.MatchString(strconv.Itoa(xid)) == (list[1] == "=~")
			if fires != want {
				t.Errorf("%s: XID %d of class %s: %v, want %v", a.Labels["severity"], xid, class, fires, want)
			}
		}
		checked++
	}
	if checked != 2 {
		t.Errorf("%d alerts, want one for devices and one for programs", checked)
	}
}
