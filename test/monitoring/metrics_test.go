package monitoring

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/kube/controller"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// metricLabels are the metrics that exist, and the labels of each.
type metricLabels map[string][]string

// targetLabels are what Prometheus adds to every series.
var targetLabels = []string{"job", "instance"}

// foreign are metrics of other programs that rules and dashboards use.
var foreign = metricLabels{
	// Prometheus itself.
	"up":     nil,
	"ALERTS": {"alertname", "alertstate", "severity"},
	// Every program in Go; kube-scheduler and client-go, in gpu-scheduler.
	"process_cpu_seconds_total":     nil,
	"process_resident_memory_bytes": nil,
	"rest_client_requests_total":    {"code", "method", "host"},
	"scheduler_pending_pods":        {"queue"},
	// Programs that serve models: vLLM, and NVIDIA's Triton. namespace is the target's.
	"vllm:time_to_first_token_seconds_bucket": {"namespace", "model_name", "le"},
	"nv_inference_request_duration_us":        {"namespace", "model", "version"},
	"nv_inference_request_success":            {"namespace", "model", "version"},
}

// exported are all metrics that rules and dashboards may use, but for those that the rules
// record themselves.
func exported() metricLabels {
	out := maps.Clone(foreign)
	for _, table := range []metrictable.Table{metrics.Table(), controller.Table(), export.Table()} {
		for _, m := range table.Metrics {
			out.add(m.Name, m.Type == metrictable.Histogram, m.LabelNames())
		}
	}
	return out
}

func (m metricLabels) add(name string, histogram bool, labels []string) {
	m[name] = labels
	if histogram {
		m[name+"_bucket"], m[name+"_sum"], m[name+"_count"] = append(slices.Clip(labels), "le"), labels, labels
	}
}

// A use is what a PromQL expression needs: metrics with the labels it selects by, and the
// labels it groups and matches by.
type use struct {
	metrics  map[string][]string
	grouping []string
}

// parse returns what an expression uses, by Prometheus' own parser.
func parse(t *testing.T, expr string) (use, error) {
	t.Helper()
	var tree any
	if err := theParser(t).api(t.Context(), "parse_query", url.Values{"query": {expr}}, &tree); err != nil {
		return use{}, err
	}
	u := use{metrics: map[string][]string{}}
	u.walk(tree)
	return u, nil
}

func (u *use) walk(node any) {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			u.walk(child)
		}
	case map[string]any:
		switch n["type"] {
		case "vectorSelector", "matrixSelector":
			u.selector(n)
			return
		case "aggregation":
			u.grouping = append(u.grouping, texts(n["grouping"])...)
		case "binaryExpr":
			if matching, ok := n["matching"].(map[string]any); ok {
				u.grouping = append(append(u.grouping, texts(matching["labels"])...), texts(matching["include"])...)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(n)) {
			u.walk(n[key])
		}
	}
}

func (u *use) selector(n map[string]any) {
	name, _ := n["name"].(string)
	var labels []string
	matchers, _ := n["matchers"].([]any)
	for _, m := range matchers {
		matcher, _ := m.(map[string]any)
		label, _ := matcher["name"].(string)
		if label == "__name__" {
			name, _ = matcher["value"].(string)
			continue
		}
		labels = append(labels, label)
	}
	u.metrics[name] = append(u.metrics[name], labels...)
}

func texts(list any) (out []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// problems says what an expression uses that does not exist.
func (m metricLabels) problems(u use) (out []string) {
	all := slices.Clone(targetLabels)
	for _, name := range slices.Sorted(maps.Keys(u.metrics)) {
		labels, known := m[name]
		if !known {
			out = append(out, fmt.Sprintf("no program exports the metric %q", name))
			continue
		}
		all = append(all, labels...)
		for _, l := range u.metrics[name] {
			if !slices.Contains(labels, l) && !slices.Contains(targetLabels, l) {
				out = append(out, fmt.Sprintf("%s has no label %q: its labels are %q", name, l, labels))
			}
		}
	}
	for _, l := range u.grouping {
		if !slices.Contains(all, l) {
			out = append(out, fmt.Sprintf("groups or matches by %q, which none of its metrics has", l))
		}
	}
	return out
}

// TestProblems: the check itself finds what it is for.
func TestProblems(t *testing.T) {
	known := exported()
	for _, tt := range []struct{ name, expr, want string }{
		{"good", `sum by (queue) (tangram_pending_gangs{queue="a"})`, ""},
		{"agent's", `max by (Hostname) (DCGM_FI_DEV_GPU_TEMP{gpu="0",job="gpu-agent"})`, ""},
		{"histogram", `sum by (phase, le) (rate(tangram_scheduling_duration_seconds_bucket[5m]))`, ""},
		{"the document's name", `gpu_scheduler_latency > 0.1`, `no program exports the metric "gpu_scheduler_latency"`},
		{"misspelt label", `tangram_pending_gangs{queu="a"}`, `no label "queu"`},
		{"grouping", `sum by (node) (tangram_pending_gangs)`, `groups or matches by "node"`},
		{"matching", `tangram_pending_gangs and on (pod) tangram_leader`, `groups or matches by "pod"`},
		{"inside", `sum(rate(tangram_nonsense_total[5m] offset 1h))`, "tangram_nonsense_total"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := parse(t, tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(known.problems(u), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.expr, got, tt.want)
			}
		})
	}
}
