package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/nodelabels"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

var now = time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC)

// whole is a node of 8 GPUs with which nothing is wrong.
func whole() *Facts {
	const model = "NVIDIA A100-SXM4-80GB"
	f := &Facts{
		Now: now, Defined: true,
		Node: Node{
			Name: "n", Ready: "True", ReadySince: now.Add(-time.Hour),
			Labels: map[string]string{
				"accelerator": nodelabels.Accelerator("nvidia", model), "gpu-count": "8",
				"nvidia.com/gpu.product": nodelabels.Value(model), "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920",
			},
			Capacity: map[string]int64{"nvidia.com/gpu": 8}, Allocatable: map[string]int64{"nvidia.com/gpu": 8},
		},
		GPUs:    &GPUs{Driver: "580.1", CUDA: "13.0", DriverReady: "True", AgentVersion: "v1", MeasuredAt: now.Add(-time.Minute)},
		Agents:  []Program{{Name: "tangram-system/gpu-agent-x", Ready: true}},
		Plugins: []Program{{Name: "kube-system/nvidia-device-plugin-x", Ready: true}},
	}
	for i := range 8 {
		f.GPUs.Devices = append(f.GPUs.Devices, Device{
			Index: i, UUID: fmt.Sprint("GPU-", i), Vendor: "nvidia", Model: model, MemoryMiB: 81920, NVLinks: 12, Linked: true, MIG: true,
			Health: "Healthy", XID: -1, Temperature: 60, Watts: 300, UsedMiB: 1000,
		})
	}
	f.Pods = []Pod{{Name: "ml/train", Asks: true, Record: true, Started: true, Ours: true, BoundAt: now.Add(-time.Hour), Held: []Held{{Index: 0, UUID: "GPU-0", Whole: true}}}}
	return f
}

// TestWhole: nothing is wrong with a node that is well, and every check says what it saw.
func TestWhole(t *testing.T) {
	r := Run(whole())
	if r.Worst != OK || len(r.Results) != len(Names()) {
		t.Errorf("%s, %d results", r.Worst, len(r.Results))
	}
	for i, x := range r.Results {
		if x.State != OK || x.Seen == "" || x.Do != "" || x.Check != Names()[i] {
			t.Errorf("%+v", x)
		}
	}
}

// TestChecks: each row breaks one thing; the check named sees it, with the number, and says
// what to do.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name, check string
		state       State
		seen, do    string
		breaks      func(f *Facts)
	}{
		{"not ready", "node", Fail, "Ready is Unknown since 10m: kubelet stopped", "journalctl -u kubelet", func(f *Facts) {
			f.Node.Ready, f.Node.ReadyMessage, f.Node.ReadySince = "Unknown", "kubelet stopped", now.Add(-10*time.Minute)
		}},
		{"no condition", "node", Fail, "no condition Ready", "kubectl describe node n", func(f *Facts) { f.Node.Ready = "" }},
		{"pressure", "node", Warn, "DiskPressure", "describe", func(f *Facts) { f.Node.Pressures = []string{"DiskPressure: full"} }},
		{"agent crashes", "agent", Fail, "CrashLoopBackOff, 7 restarts", "kubectl -n tangram-system logs gpu-agent-x", func(f *Facts) {
			f.Agents[0] = Program{Name: "tangram-system/gpu-agent-x", Restarts: 7, Waiting: "CrashLoopBackOff"}
		}},
		{"agent not ready", "agent", Fail, "is not ready", "logs", func(f *Facts) { f.Agents[0].Ready = false }},
		{"agent restarts", "agent", Warn, "after 9 restarts", "--previous", func(f *Facts) { f.Agents[0].Restarts = 9 }},
		{"two agents", "agent", Warn, "2 agents", "kubectl get pods", func(f *Facts) { f.Agents = append(f.Agents, Program{Name: "a/b", Ready: true}) }},
		{"agent gone", "agent", Fail, "no agent pod", "daemonset", func(f *Facts) { f.Agents, f.GPUs.MeasuredAt = nil, now.Add(-time.Hour) }},
		{"simulated agent is late", "agent", Warn, "the node is simulated: its agent is a process of the local cluster and no pod, and measured 7m", "tangram up", func(f *Facts) {
			f.Agents, f.GPUs.MeasuredAt, f.Node.Simulated = nil, now.Add(-7*time.Minute), true
		}},
		{"GPUNode by hand", "agent", Warn, "does not say when", "daemonset", func(f *Facts) { f.Agents, f.GPUs.MeasuredAt = nil, time.Time{} }},
		{"never an agent", "agent", Warn, "derived from labels", "agent.enabled", func(f *Facts) { f.Agents, f.GPUs = nil, nil }},
		{"no agent, no GPU", "agent", Unknown, "offers no GPU", "label", func(f *Facts) { f.Agents, f.GPUs, f.Node.Capacity = nil, nil, nil }},
		{"late", "published", Warn, "measured 7m ago", "GPUAgentNotPublishing", func(f *Facts) { f.GPUs.MeasuredAt = now.Add(-7 * time.Minute) }},
		{"stale", "published", Fail, "measured 20m ago", "GPUAgentNotPublishing", func(f *Facts) { f.GPUs.MeasuredAt = now.Add(-20 * time.Minute) }},
		{"never measured", "published", Warn, "never", "gpunode", func(f *Facts) { f.GPUs.MeasuredAt = time.Time{} }},
		{"clocks", "published", Warn, "5m in the future", "timedatectl", func(f *Facts) { f.GPUs.MeasuredAt = now.Add(5 * time.Minute) }},
		{"contradiction", "published", Fail, "same uuid", "-o yaml", func(f *Facts) { f.GPUs.Problem = "two devices have the same uuid" }},
		{"not published", "published", Fail, "no GPUNode n though an agent runs", "log", func(f *Facts) { f.GPUs = nil }},
		{"no kind", "published", Unknown, "no kind GPUNode", "config/crd", func(f *Facts) { f.GPUs, f.Defined = nil, false }},
		{"no driver", "driver", Fail, "580.1, CUDA 13.0: gone", "nvidia-smi", func(f *Facts) { f.GPUs.DriverReady, f.GPUs.DriverMessage = "False", "gone" }},
		{"driver not told", "driver", Unknown, "no condition", "gpunode", func(f *Facts) { f.GPUs.DriverReady = "" }},
		{"device failed", "devices", Fail, "device 3 is Failed since 30m, OffTheBus: XID 79", "reboot", sick(3, "Failed", "OffTheBus", "XID 79")},
		{"device suspect", "devices", Warn, "device 2 is Suspect", "restart the applications", sick(2, "Suspect", "ApplicationErrors", "x")},
		{"old agent without codes", "devices", Fail, "device 1 is Degraded", "docs/reference/agent.md", sick(1, "Degraded", "", "slow")},
		{"no devices", "devices", Fail, "lists no device", "nvidia-smi -L", func(f *Facts) { f.GPUs.Devices = nil }},
		{"memory error", "ecc", Fail, "device 4 is Degraded", "--gpu-reset -i 4", sick(4, "Degraded", "UncorrectedMemoryError", "2 errors")},
		{"rows used up", "ecc", Fail, "RowRemapFailure", "replace", sick(4, "Failed", "RowRemapFailure", "x")},
		{"xid of hardware", "xid", Fail, "XID 79 (GPU has fallen off the bus), REBOOT", "reboot", func(f *Facts) { sick(5, "Failed", "OffTheBus", "x")(f); f.GPUs.Devices[5].XID = 79 }},
		{"xid that passed", "xid", Warn, "healthy again", "watch", func(f *Facts) { f.GPUs.Devices[5].XID = 48 }},
		{"xid of an application", "xid", Warn, "XID 31 (illegal memory access)", "program", func(f *Facts) { f.GPUs.Devices[5].XID = 31 }},
		{"harmless xid", "xid", OK, "harmless", "", func(f *Facts) { f.GPUs.Devices[5].XID = 43 }},
		{"link down", "links", Fail, "11 of 12 NVLinks", "nvidia-smi nvlink", sick(6, "Degraded", "NVLinkDown", "11 of 12 NVLinks are up")},
		{"narrow", "links", Fail, "PCIeNarrow", "reseat", sick(6, "Degraded", "PCIeNarrow", "8 of 16")},
		{"not linked", "links", Warn, "device 7 has 12 NVLinks", "topo -m", func(f *Facts) { f.GPUs.Devices[7].Linked = false }},
		{"throttled", "throttling", Fail, "Throttled", "cooling", sick(0, "Degraded", "Throttled", "clocks")},
		{"hot", "temperature", Fail, "device 1 has 91 °C, above 85", "fans", func(f *Facts) { f.GPUs.Devices[1].Temperature = 91 }},
		{"warm", "temperature", Warn, "82 °C, above 80", "fans", func(f *Facts) { f.GPUs.Devices[1].Temperature = 82 }},
		{"hot for long", "temperature", Fail, "Hot", "fans", sick(1, "Degraded", "Hot", "90 degrees")},
		{"temperature not measured", "temperature", Unknown, "within 15m", "", func(f *Facts) { f.GPUs.MeasuredAt = now.Add(-time.Hour) }},
		{"no power", "power", Unknown, "no device", "", func(f *Facts) {
			for i := range f.GPUs.Devices {
				f.GPUs.Devices[i].Watts = -1
			}
		}},
		{"nearly full", "memory", Warn, "device 0 uses 80000 of 81920 MiB, 97 %", "batch", func(f *Facts) { f.GPUs.Devices[0].UsedMiB = 80000 }},
		{"over its share", "memory", Fail, "pod ml/x uses 900 MiB of device 0 and was given 100", "delete pod", func(f *Facts) { f.GPUs.Devices[0].Over = []Over{{"ml/x", 900, 100}} }},
		{"not visible", "plugin", Fail, "kubelet offers no GPU, and the driver sees 8", "device plugin", func(f *Facts) { f.Node.Capacity = nil }},
		{"plugin crashes", "plugin", Fail, "CrashLoopBackOff", "logs", func(f *Facts) { f.Plugins[0].Waiting = "CrashLoopBackOff" }},
		{"two plugins", "plugin", Fail, "the agent serves, and so does kube-system/nvidia", "remove one", func(f *Facts) { f.GPUs.Serving = true }},
		{"fewer", "capacity", Fail, "offers 7 nvidia.com/gpu, the GPUNode has 8", "restart the device plugin", func(f *Facts) { f.Node.Capacity["nvidia.com/gpu"] = 7 }},
		{"more", "capacity", Warn, "offers 9", "replicas", func(f *Facts) { f.Node.Capacity["nvidia.com/gpu"] = 9 }},
		{"not allocatable", "capacity", Warn, "5 of 8 nvidia.com/gpu are allocatable, 8 are healthy", "unhealthy", func(f *Facts) { f.Node.Allocatable["nvidia.com/gpu"] = 5 }},
		{"turns", "capacity", OK, "as the GPUNode says: nvidia.com/gpu: 32", "", func(f *Facts) {
			f.GPUs.Replicas, f.Node.Capacity["nvidia.com/gpu"], f.Node.Allocatable["nvidia.com/gpu"] = 4, 32, 32
		}},
		{"label missing", "labels", Warn, "label nvidia.com/gpu.count is missing, 8 is true", "agent", func(f *Facts) { delete(f.Node.Labels, "nvidia.com/gpu.count") }},
		{"label wrong", "labels", Warn, `label gpu-count is "4", "8" is true`, "kubectl label node n gpu-count-", func(f *Facts) { f.Node.Labels["gpu-count"] = "4" }},
		{"no record", "allocations", Fail, "pod ml/x holds GPUs and has no record", "delete", func(f *Facts) { f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true, Ours: true}) }},
		{"another scheduler", "allocations", Warn, "another scheduler placed it", "schedulerName", func(f *Facts) { f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true}) }},
		{"bad record", "allocations", Fail, "record of pod ml/x is invalid: v9", "describe pod x", func(f *Facts) { f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true, RecordError: "v9"}) }},
		{"twice", "allocations", Fail, "device 0 is held whole by ml/train and ml/x", "younger", func(f *Facts) {
			f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true, Record: true, Held: []Held{{Index: 0, UUID: "GPU-0", Whole: true}}})
		}},
		{"whole and share", "allocations", Fail, "device 0 is held whole", "younger", func(f *Facts) {
			f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true, Record: true, Held: []Held{{Index: 0, UUID: "GPU-0"}}})
		}},
		{"replaced", "allocations", Fail, "holds device 2 (GPU-old), which the node does not have", "replaced", func(f *Facts) {
			f.Pods = append(f.Pods, Pod{Name: "ml/x", Asks: true, Record: true, Held: []Held{{Index: 2, UUID: "GPU-old", Whole: true}}})
		}},
		{"two shares", "allocations", OK, "pods that ask for GPUs: 3", "", func(f *Facts) {
			for _, n := range []string{"a/a", "a/b"} {
				f.Pods = append(f.Pods, Pod{Name: n, Asks: true, Record: true, Held: []Held{{Index: 1, UUID: "GPU-1"}}})
			}
		}},
		{"terminating", "stuck", Fail, "pod ml/train was to end 2h ago", "--force", func(f *Facts) { f.Pods[0].DeleteBy = now.Add(-2 * time.Hour) }},
		{"terminating in time", "stuck", OK, "pods that hold GPUs: 1", "", func(f *Facts) { f.Pods[0].DeleteBy = now.Add(20 * time.Second) }},
		{"does not start", "stuck", Warn, "was bound 1h ago and does not run", "describe pod train", func(f *Facts) { f.Pods[0].Started = false }},
		{"cordoned", "cordons", Warn, "the node is cordoned", "kubectl uncordon n", func(f *Facts) { f.Node.Unschedulable = true }},
		{"isolated", "cordons", Warn, "isolated the node: XID", "do not uncordon the node: it is put back", func(f *Facts) { f.Node.Isolated, f.Node.Unschedulable = "XID", true }},
		{"isolated, and cordoned before", "cordons", Warn, "was cordoned before", "kubectl uncordon n, when the node is well", func(f *Facts) { f.Node.Isolated, f.Node.Unschedulable, f.Node.OwnCordon = "XID", true, true }},
		{"maintenance", "cordons", Warn, "maintenance: now", "annotate node n", func(f *Facts) { f.Node.Maintenance = "now" }},
		{"device cordoned", "cordons", Warn, "device 3 is cordoned", "kubectl edit gpunode n", func(f *Facts) { f.GPUs.Cordoned = []string{"3"} }},
		{"device isolated", "cordons", Warn, "gpu-controller has cordoned device GPU-3", "cause", func(f *Facts) { f.GPUs.Cordoned = []string{"gpu-controller:GPU-3"} }},
		{"stranger cordoned", "cordons", Warn, `names "GPU-x", which no device`, "edit", func(f *Facts) { f.GPUs.Cordoned = []string{"GPU-x"} }},
		{"mig manager failed", "mig", Fail, "nvidia.com/mig.config=all-1g.10gb is failed", "mig-manager", func(f *Facts) {
			f.Node.Labels[migConfig], f.Node.Labels[migState] = "all-1g.10gb", "failed"
		}},
		{"mig manager works", "mig", Warn, "is pending", "mig-manager", func(f *Facts) { f.Node.Labels[migConfig], f.Node.Labels[migState] = "all-1g.10gb", "pending" }},
		{"mig without slices", "mig", Fail, "device 0 is in MIG mode and has no slice", "-mig 0", func(f *Facts) { f.GPUs.Devices[0].Cut = true }},
		{"slices not offered", "mig", Fail, "2 slices 3g.40gb exist, kubelet offers 0", "MIG_STRATEGY", func(f *Facts) {
			d := &f.GPUs.Devices[0]
			d.Cut, d.Instances = true, map[string]int{"3g.40gb": 2}
		}},
		{"slices offered", "mig", OK, "2 slices exist", "", func(f *Facts) {
			d := &f.GPUs.Devices[0]
			d.Cut, d.Instances = true, map[string]int{"3g.40gb": 2}
			f.Node.Capacity["nvidia.com/mig-3g.40gb"] = 2
		}},
		{"wanted and impossible", "mig", Fail, "no device can be cut", "label node n", func(f *Facts) {
			for i := range f.GPUs.Devices {
				f.GPUs.Devices[i].MIG = false
			}
			f.Node.Labels[migConfig] = "all-1g.10gb"
		}},
		{"foreign slices", "mig", Warn, "2 slices that the agent did not make", "-dgi", func(f *Facts) {
			d := &f.GPUs.Devices[0]
			f.GPUs.Serving, d.Cut, d.Instances = true, true, map[string]int{"3g.40gb": 2}
		}},
		{"two drivers", "slices", Fail, "2 drivers publish GPUs", "one driver", func(f *Facts) {
			f.Slices = []Slice{{Driver: "gpu.tangram.dev", Devices: 8}, {Driver: "gpu.nvidia.com", Devices: 8}}
		}},
		{"incomplete pool", "slices", Fail, "has 1 of 2 slices", "driver's log", func(f *Facts) { f.Slices = []Slice{{Driver: "gpu.tangram.dev", Devices: 8, Count: 2}} }},
		{"old generation", "slices", Warn, "is of generation 1, the pool of 2", "restart", func(f *Facts) {
			f.Slices = []Slice{{Driver: "gpu.tangram.dev", Devices: 8, Count: 1, Generation: 2}, {Name: "old", Driver: "gpu.tangram.dev", Generation: 1}}
		}},
		{"fewer in slices", "slices", Warn, "publishes 5 devices, the GPUNode has 8, 8 of them healthy", "log", func(f *Facts) { f.Slices = []Slice{{Driver: "gpu.tangram.dev", Devices: 5, Count: 1}} }},
		{"other drivers", "slices", OK, "no driver of GPUs", "", func(f *Facts) { f.Slices = []Slice{{Driver: "nic.example.com", Devices: 1}} }},
	} {
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			f := whole()
			c.breaks(f)
			r := Run(f)
			x := r.Results[slices.Index(Names(), c.check)]
			if x.State != c.state || !strings.Contains(x.Seen, c.seen) || !strings.Contains(x.Do, c.do) || (c.do == "") != (x.Do == "") {
				t.Errorf("got  %s %q, do %q\nwant %s %q, do %q", x.State, x.Seen, x.Do, c.state, c.seen, c.do)
			}
			if r.Worst.rank() < x.State.rank() {
				t.Errorf("worst is %s", r.Worst)
			}
		})
	}
}

// sick makes a device unhealthy.
func sick(index int, health, cause, reason string) func(*Facts) {
	return func(f *Facts) {
		d := &f.GPUs.Devices[index]
		d.Health, d.Cause, d.Reason, d.Since = health, cause, reason, now.Add(-30*time.Minute)
	}
}

// TestEmptyFacts: of a node of which nothing is known no check panics, or says nothing.
func TestEmptyFacts(t *testing.T) {
	r := Run(&Facts{}) // nothing is known: no check may panic, and none may call it ok
	for _, x := range r.Results {
		if x.State == "" || x.Seen == "" {
			t.Errorf("%+v", x)
		}
	}
	if r.Worst != Fail {
		t.Errorf("worst is %s", r.Worst)
	}
}

func TestManyFindings(t *testing.T) {
	f := whole()
	for i := range 8 {
		sick(i, "Failed", "OffTheBus", "gone")(f)
	}
	if r := Run(f); !strings.Contains(r.Results[4].Seen, "and 2 more") {
		t.Errorf("%q", r.Results[4].Seen)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: "5s", 90 * time.Second: "1m30s", 20 * time.Minute: "20m", 90 * time.Minute: "1h30m", 2 * time.Hour: "2h", 80 * time.Hour: "3 days", -time.Minute: "-1m",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// TestSimulatedNode: a node that KWOK plays is told from a real one, whose missing agent fails.
func TestSimulatedNode(t *testing.T) {
	for value, want := range map[string]State{"": Fail, "fake": Warn} {
		n := &v1.Node{}
		if value != "" {
			n.Annotations = map[string]string{"kwok.x-k8s.io/node": value}
		}
		measured := metav1.NewTime(now.Add(-time.Hour))
		f := FactsOf(Objects{Node: n, GPUNode: &v1alpha1.GPUNode{Status: v1alpha1.GPUNodeStatus{MeasuredAt: &measured}}, Defined: true}, now)
		if got := agent(f); got.State != want {
			t.Errorf("%q: got %+v, want %s", value, got, want)
		}
	}
}

// TestIsolated: gpu-controller's mark is read, whatever is in it; a cordon is the operator's
// only if the mark says so.
func TestIsolated(t *testing.T) {
	taint := []v1.Taint{{Key: names.TaintIsolated, Value: "NodeNotReady", Effect: v1.TaintEffectNoSchedule}}
	for _, c := range []struct {
		taints     []v1.Taint
		mark, want string
		own        bool
	}{
		{taint, `{"cause":"NodeNotReady","why":"the node is not ready","began":"2026-01-01T00:00:00Z","detected":"2026-01-01T00:00:00Z","cordoned":true}`, "NodeNotReady: the node is not ready", false},
		{taint, `{"cause":"NodeNotReady","began":"2026-01-01T00:00:00Z","detected":"2026-01-01T00:00:00Z"}`, "NodeNotReady", true},
		{taint, "nonsense", "NodeNotReady", false},
		{taint, "", "NodeNotReady", false},
		{nil, `{"cause":"NodeNotReady","lifted":true}`, "", false},
		{[]v1.Taint{{Key: names.TaintIsolated}}, "", "cause unknown", false},
	} {
		n := nodeFacts(&v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationIsolated: c.mark}}, Spec: v1.NodeSpec{Unschedulable: true, Taints: c.taints}})
		if n.Isolated != c.want || n.OwnCordon != c.own {
			t.Errorf("%s: %q, own cordon %v", c.mark, n.Isolated, n.OwnCordon)
		}
	}
}
