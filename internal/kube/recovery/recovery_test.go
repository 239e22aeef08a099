package recovery

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/recovery"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// TestParse: a file is read over the defaults, and a mistake is named by its field.
func TestParse(t *testing.T) {
	s, err := Parse([]byte("evict: {from: Failed}\nintervals: {node: 10s}\n"))
	if err != nil || s.Evict.From != recovery.EvictFailed || s.Intervals.Node.Duration != 10*time.Second || s.Intervals.Device.Duration != time.Minute || !s.Isolate.Devices {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Parse(nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	for file, want := range map[string]string{
		"evict: {from: Always}":                   `evict.from: "Always"`,
		"evict: {form: Failed}":                   `unknown field "evict.form"`,
		"limits: {nodesPercent: 0}":               "limits.nodesPercent: 0",
		"limits: {devicesPercent: 10%}":           "limits.devicesPercent",
		"intervals: {device: 60}":                 "device",
		"intervals: {scheduler: 1ms}":             "intervals.scheduler: 1ms",
		"confirmations: 1":                        "confirmations: 1",
		"agent: {selector: '=='}":                 "agent.selector:",
		"agent: {selector: ''}":                   "agent.selector: empty",
		"agent: {namespace: ''}":                  "agent.namespace:",
		"verify: {command: [x]}":                  "verify.command: needs verify.image",
		"verify: {namespace: No!}":                "verify.namespace:",
		"backoff: {first: 1m, most: 1s}":          "backoff.most: 1s",
		"recoverAfter: -1s":                       "recoverAfter: -1s",
		"scheduler: {lease: ''}":                  "scheduler.lease:",
		"evict: {from: Failed}\nevict: {from: x}": "evict",
	} {
		if _, err := Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

// TestMaintenanceOf: times, now and durations, and what is neither.
func TestMaintenanceOf(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]recovery.Maintenance{
		"now":                     {From: now},
		"now/2h":                  {From: now, Until: now.Add(2 * time.Hour)},
		"2026-10-01T14:00:00Z":    {From: now.Add(2 * time.Hour)},
		"2026-10-01T14:00:00Z/1h": {From: now.Add(2 * time.Hour), Until: now.Add(3 * time.Hour)},
		"2026-10-01T14:00:00+02:00/2026-10-01T15:00:00Z": {From: now, Until: now.Add(3 * time.Hour)},
	} {
		m, err := maintenanceOf(text, time.Time{}, now)
		if err != nil || !m.From.Equal(want.From) || !m.Until.Equal(want.Until) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	// A maintenance that is under way began when it began.
	if m, err := maintenanceOf("now/2h", now.Add(-time.Hour), now); err != nil || !m.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, text := range []string{"", "/", "tomorrow", "now/", "now/-1h", "now/0s", "2026-10-01T14:00:00Z/2026-10-01T13:00:00Z", strings.Repeat("x", 10_000)} {
		if m, err := maintenanceOf(text, time.Time{}, now); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20q: %+v, %v", text, m, err)
		}
	}
}

// TestDevicePatch: operators' entries stay, whichever way they are spelt.
func TestDevicePatch(t *testing.T) {
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7"}}
	read := func(a recovery.Action, cordoned ...string) (string, string) {
		t.Helper()
		body, err := devicePatch(gn, cordoned, a)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
			Spec struct{ Cordoned []string }
		}
		if err := json.Unmarshal(body, &p); err != nil || p.Metadata.ResourceVersion != "7" {
			t.Fatalf("%s: %v", body, err)
		}
		return strings.Join(p.Spec.Cordoned, " "), p.Metadata.Annotations[names.AnnotationIsolated]
	}
	mark := &recovery.Mark{Cause: recovery.DeviceFailed}
	list, text := read(recovery.Action{Do: recovery.IsolateDevice, Device: "GPU-1", Mark: mark}, "GPU-1", "3")
	if list != "GPU-1 3 gpu-controller:GPU-1" || !strings.Contains(text, `"GPU-1":{"cause":"DeviceFailed"`) {
		t.Errorf("isolate: %s, %s", list, text)
	}
	gn.Annotations = map[string]string{names.AnnotationIsolated: text}
	list, text = read(recovery.Action{Do: recovery.ReleaseDevice, Device: "GPU-1", Mark: mark}, "GPU-1", "3", "gpu-controller:GPU-1", "gpu-controller:GPU-2")
	if list != "GPU-1 3 gpu-controller:GPU-2" || text != "" {
		t.Errorf("release: %s, %s", list, text)
	}
}

// TestNodePatch: a node that was cordoned before stays so when it is released.
func TestNodePatch(t *testing.T) {
	apply := func(n *v1.Node, a recovery.Action) {
		t.Helper()
		body, err := nodePatch(n, a)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Metadata struct{ Annotations map[string]*string }
			Spec     struct {
				Unschedulable *bool
				Taints        []v1.Taint
			}
		}
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{}
		if s := p.Metadata.Annotations[names.AnnotationIsolated]; s != nil {
			n.Annotations[names.AnnotationIsolated] = *s
		}
		n.Spec.Taints = p.Spec.Taints
		if strings.Contains(string(body), `"unschedulable"`) {
			n.Spec.Unschedulable = p.Spec.Unschedulable != nil && *p.Spec.Unschedulable
		}
	}
	for _, cordoned := range []bool{false, true} {
		n := &v1.Node{Spec: v1.NodeSpec{Unschedulable: cordoned, Taints: []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoExecute}}}}
		apply(n, recovery.Action{Do: recovery.IsolateNode, Cause: recovery.NodeNotReady, Mark: &recovery.Mark{Cause: recovery.NodeNotReady}})
		if !n.Spec.Unschedulable || len(n.Spec.Taints) != 2 {
			t.Errorf("isolated: %+v", n.Spec)
		}
		var mark recovery.Mark
		if err := json.Unmarshal([]byte(n.Annotations[names.AnnotationIsolated]), &mark); err != nil {
			t.Fatal(err)
		}
		apply(n, recovery.Action{Do: recovery.ReleaseNode, Mark: &mark})
		if n.Spec.Unschedulable != cordoned || len(n.Spec.Taints) != 1 || len(n.Annotations) > 0 {
			t.Errorf("cordoned before %v, released: %+v", cordoned, n.Spec)
		}
	}
}

// TestTenantsWords: what a tenant may write on a pod does not make it a test pod, an agent
// or one that is never moved.
func TestTenantsWords(t *testing.T) {
	r := &Recovery{Settings: Defaults()}
	yes := true
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Labels: map[string]string{"app.kubernetes.io/name": "gpu-agent"},
		Annotations: map[string]string{names.AnnotationVerifies: "GPU-1"}, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}}},
		Spec: v1.PodSpec{NodeName: "n"}}
	if r.isAgent(p) || r.isTest(p) || r.pod(p).Critical {
		t.Error("the tenant's pod is taken for one of ours")
	}
	p.Namespace = "tangram-system"
	if !r.isAgent(p) || !r.isTest(p) {
		t.Error("ours is not recognised")
	}
}

// TestTable: every metric that is served is in the table with its labels, and no label has
// values without a bound.
func TestTable(t *testing.T) {
	m := NewMetrics()
	m.Leads(true)
	m.plan(&recovery.Plan{}, recovery.Reliability{})
	for _, do := range []recovery.Do{recovery.IsolateDevice, recovery.IsolateNode, recovery.ReleaseDevice, recovery.ReleaseNode, recovery.RestartAgent} {
		m.did(recovery.Action{Do: do, Cause: recovery.DeviceFailed, Node: "a-node", Device: "a-device"})
	}
	m.evicted(recovery.DeviceFailed, "evicted")
	table := map[string]metrictable.Metric{}
	for _, row := range Table().Metrics {
		table[row.Name] = row
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tangram_") {
			continue
		}
		served[f.GetName()] = true
		row, ok := table[f.GetName()]
		if !ok {
			t.Errorf("%s is not in the table", f.GetName())
		}
		for _, series := range f.Metric {
			for i, l := range series.Label {
				names := row.LabelNames()
				if len(names) != len(series.Label) || !strings.Contains(row.Labels[indexOf(names, l.GetName())].Values, l.GetValue()) {
					t.Errorf("%s: label %d %s=%s is not in the table", f.GetName(), i, l.GetName(), l.GetValue())
				}
			}
		}
	}
	for name := range table {
		if !served[name] {
			t.Errorf("%s is in the table and not served", name)
		}
	}
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return 0
}
