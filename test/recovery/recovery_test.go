package recovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/drill"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestRecovery: each test has nodes of its own, and together they stay within the share of
// the fleet that may be isolated. The false alarm comes last.
func TestRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("faults", func(t *testing.T) {
		for name, test := range map[string]func(*world){
			"DeviceIsVerified":       deviceIsVerified,
			"OperatorsDeviceCordon":  operatorsDeviceCordon,
			"OperatorsNodeCordon":    operatorsNodeCordon,
			"OperatorLiftsIsolation": operatorLiftsIsolation,
			"DisruptionBudget":       disruptionBudget,
			"GangAsAWhole":           gangAsAWhole,
			"GuardedGang":            guardedGang,
			"Maintenance":            maintenance,
			"OverMemory":             overMemory,
			"MetricsAccess":          metricsAccess,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(w.in(t))
			})
		}
	})
	if !t.Failed() {
		t.Run("FalseAlarm", func(t *testing.T) { falseAlarm(w.in(t)) })
	}
}

// TestDrill: every fault is recovered from.
func TestDrill(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	report, err := drill.Run(ctx, drill.Options{Dir: t.TempDir(), Bin: binDir(t), Fast: true, Nodes: 20, Target: time.Minute, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != len(drill.Names()) {
		t.Errorf("%d results, want %d", len(report.Results), len(drill.Names()))
	}
	for _, r := range report.Results {
		if !r.OK {
			t.Errorf("%s: %+v", r.Fault, r)
		}
	}
}

// deviceIsVerified: a GPU that failed is isolated, its pod evicted and its neighbour left
// alone; before it is put back, a test pod runs on exactly it.
func deviceIsVerified(w *world) {
	const node = "a-0"
	w.pod(node, "hurt")
	w.pod(node, "beside")
	hurt, beside := w.running("hurt"), w.running("beside")
	index := drill.DevicesOf(hurt)[0]
	w.breaks(node, fmt.Sprintf("device=%d,gone", index))
	w.Complete("isolation", w.isolated(node, index))
	w.Complete("eviction", w.gone(hurt))
	for _, about := range []struct{ kind, name, reason string }{{"GPUNode", node, "GPUIsolated"}, {"Node", node, "GPUIsolated"}, {"Pod", "hurt", "EvictedByRecovery"}} {
		if note := w.Event(about.kind, about.name, about.reason); !strings.Contains(note, "is Failed") {
			w.T.Errorf("event on %s: %q", about.kind, note)
		}
	}
	watch, err := w.Client.CoreV1().Pods("tangram-system").Watch(w.T.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-verify"})
	w.Must(err)
	defer watch.Stop()
	w.breaks(node, "")
	timeout := time.After(cluster.Limit)
	for tested := false; !tested; {
		select {
		case e := <-watch.ResultChan():
			if p, ok := e.Object.(*v1.Pod); ok && p.Spec.NodeName == node {
				tested = true
				if got := drill.DevicesOf(p); len(got) != 1 || got[0] != index {
					w.T.Errorf("the test pod has devices %v, want %d", got, index)
				}
			}
		case <-timeout:
			w.T.Fatal("no test pod")
		}
	}
	w.Complete("return", w.isolated(node))
	if wrong := w.there(beside)(); wrong != "" {
		w.T.Error(wrong)
	}
	w.pod(node, "again", cluster.Annotate(names.AnnotationUseIndex, fmt.Sprint(index)))
	w.running("again")
}

// operatorsDeviceCordon: a device that an operator has cordoned is not isolated, and an
// operator's cordon of an isolated device stays when the isolation ends.
func operatorsDeviceCordon(w *world) {
	const node = "a-1"
	gn := w.gpuNode(node)
	theirs, both := gn.Spec.Devices[2].UUID, gn.Spec.Devices[3].UUID
	w.cordon(node, theirs)
	w.breaks(node, "device=2,gone; device=3,gone")
	w.Complete("isolation", w.isolated(node, 3))
	w.cordon(node, both)
	w.breaks(node, "")
	w.Complete("return", w.isolated(node))
	if gn = w.gpuNode(node); strings.Join(gn.Spec.Cordoned, ",") != theirs+","+both {
		w.T.Errorf("cordoned are %v, want what the operator wrote", gn.Spec.Cordoned)
	}
}

// operatorsNodeCordon: a node that an operator cordoned before it was lost is cordoned
// when it is back.
func operatorsNodeCordon(w *world) {
	const node = "a-2"
	w.setUnschedulable(node, true)
	w.Must(w.drill.LoseNode(w.T.Context(), node))
	w.node(node, "is isolated", func(n *v1.Node) bool { return marked(n) && tainted(n) })
	w.Must(w.drill.FindNode(w.T.Context(), node))
	w.node(node, "is released", func(n *v1.Node) bool { return !marked(n) && !tainted(n) })
	w.node(node, "is cordoned", func(n *v1.Node) bool { return n.Spec.Unschedulable })
	w.Event("Node", node, "NodeReleased")
}

// operatorLiftsIsolation: a node that an operator uncordons while it is sick is not
// isolated again until the fault has gone.
func operatorLiftsIsolation(w *world) {
	const node = "a-3"
	w.Must(w.drill.LoseNode(w.T.Context(), node))
	w.node(node, "is isolated", func(n *v1.Node) bool { return marked(n) && n.Spec.Unschedulable })
	w.setUnschedulable(node, false)
	w.node(node, "is the operator's", func(n *v1.Node) bool { return !tainted(n) })
	w.Stays(looked, "node "+node, func() string {
		if n := cluster.Read[v1.Node](w.World, cluster.Nodes, node); n.Spec.Unschedulable || tainted(n) {
			return "was isolated again"
		}
		return ""
	})
	w.Must(w.drill.FindNode(w.T.Context(), node))
	w.node(node, "is forgotten", func(n *v1.Node) bool { return !marked(n) })
}

var budgets = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}

// budget makes a PodDisruptionBudget that lets none of a pod's go.
func (w *world) budget(pod string) {
	w.T.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %[1]s, namespace: default}, spec: {minAvailable: 1, selector: {matchLabels: {pod: %[1]s}}}}", pod))
	w.Complete("budget of "+pod, func() string {
		if b := cluster.Read[policyv1.PodDisruptionBudget](w.World, budgets, pod); b.Status.ObservedGeneration == 0 || b.Status.CurrentHealthy == 0 {
			return "is not known yet"
		}
		return ""
	})
}

// disruptionBudget: a pod that a budget guards stays, is told why, and goes when the
// budget allows it.
func disruptionBudget(w *world) {
	const node = "a-4"
	w.pod(node, "guarded")
	p := w.running("guarded")
	w.budget("guarded")
	w.breaks(node, fmt.Sprintf("device=%d,gone", drill.DevicesOf(p)[0]))
	if note := w.Event("Pod", "guarded", "EvictionRefused"); !strings.Contains(note, "disruption budget") {
		w.T.Errorf("event %q", note)
	}
	w.Stays(looked, "the guarded pod", w.there(p))
	w.Remove(budgets, "guarded")
	w.Complete("eviction", w.gone(p))
	w.breaks(node, "")
	w.Complete("return", w.isolated(node))
}

// gangAsAWhole: when one member is lost, the others go with it, also on other nodes.
func gangAsAWhole(w *world) {
	w.pod("a-5", "member-0", cluster.Gang("whole", 2))
	w.pod("a-6", "member-1", cluster.Gang("whole", 2))
	w.pod("a-6", "stranger")
	first, second, stranger := w.running("member-0"), w.running("member-1"), w.running("stranger")
	w.breaks("a-5", fmt.Sprintf("device=%d,gone", drill.DevicesOf(first)[0]))
	w.Complete("the member on the failed GPU", w.gone(first))
	w.Complete("the other member", w.gone(second))
	if note := w.Event("Pod", "member-1", "EvictedByRecovery"); !strings.Contains(note, "fewer than 2 members") {
		w.T.Errorf("event %q", note)
	}
	if wrong := w.there(stranger)(); wrong != "" {
		w.T.Error(wrong)
	}
	w.breaks("a-5", "")
	w.Complete("return", w.isolated("a-5"))
}

// guardedGang: a budget that guards one member keeps all.
func guardedGang(w *world) {
	w.pod("a-7", "free-member", cluster.Gang("guarded-gang", 2))
	w.pod("a-8", "guarded-member", cluster.Gang("guarded-gang", 2))
	free, guarded := w.running("free-member"), w.running("guarded-member")
	w.budget("guarded-member")
	w.breaks("a-7", fmt.Sprintf("device=%d,gone", drill.DevicesOf(free)[0]))
	w.Event("Pod", "guarded-member", "EvictionRefused")
	w.Stays(looked, "the gang", func() string { return w.there(free)() + w.there(guarded)() })
	w.breaks("a-7", "")
	w.Complete("return", w.isolated("a-7"))
}

// maintenance: at its time all pods but a DaemonSet's leave the node, and at its end it is
// put back. What cannot be read is said.
func maintenance(w *world) {
	const node = "a-9"
	w.pod(node, "drained")
	w.pod(node, "drained-cpu", func(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} })
	gpu, cpu := w.running("drained"), w.running("drained-cpu")
	agents := func() string {
		list, err := w.Client.CoreV1().Pods("tangram-system").List(w.T.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-agent", FieldSelector: "spec.nodeName=" + node})
		if err != nil || len(list.Items) != 1 || list.Items[0].DeletionTimestamp != nil {
			return fmt.Sprintf("%d pods of the agent (%v)", len(list.Items), err)
		}
		return ""
	}
	w.Complete("the agent's pod", agents)
	start := time.Now().Add(6 * time.Second).UTC().Truncate(time.Second)
	w.Must(w.drill.AnnotateNode(w.T.Context(), node, names.AnnotationMaintenance, start.Format(time.RFC3339)+"/12s"))
	w.Complete("eviction", w.gone(gpu))
	if early := time.Until(start); early > 0 {
		w.T.Errorf("evicted %s before the maintenance", early)
	}
	w.Complete("eviction", w.gone(cpu))
	w.node(node, "is isolated", func(n *v1.Node) bool { return marked(n) && tainted(n) && n.Spec.Unschedulable })
	if wrong := agents(); wrong != "" {
		w.T.Error(wrong)
	}
	w.node(node, "is back", func(n *v1.Node) bool { return !marked(n) && !tainted(n) && !n.Spec.Unschedulable })
	if early := time.Until(start.Add(12 * time.Second)); early > 0 {
		w.T.Errorf("back %s before the end", early)
	}
	w.Must(w.drill.AnnotateNode(w.T.Context(), node, names.AnnotationMaintenance, "tomorrow"))
	if note := w.Event("Node", node, "InvalidMaintenance"); !strings.Contains(note, names.AnnotationMaintenance) || !strings.Contains(note, "tomorrow") {
		w.T.Errorf("event %q", note)
	}
}

// overMemory: a pod that uses more GPU memory than its share is evicted, one that keeps to
// it is not.
func overMemory(w *world) {
	const node = "a-10"
	share := func(used string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations[names.AnnotationSimulatedMemory] = used
			p.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("8000")
		}
	}
	w.pod(node, "fair", share("8000"))
	w.pod(node, "greedy", share("20000"))
	fair, greedy := w.running("fair"), w.running("greedy")
	w.Complete("eviction", w.gone(greedy))
	if note := w.Event("Pod", "greedy", "EvictedByRecovery"); !strings.Contains(note, "uses 20000 MiB") {
		w.T.Errorf("event %q", note)
	}
	if wrong := w.there(fair)(); wrong != "" {
		w.T.Error(wrong)
	}
	w.Complete("GPUNode", func() string { // and it is forgotten
		for _, d := range w.gpuNode(node).Status.Devices {
			if len(d.OverMemory) > 0 {
				return fmt.Sprintf("still lists %+v", d.OverMemory)
			}
		}
		return ""
	})
}

// callers ask for metrics; reader may.
var callers = cluster.Accounts(
	cluster.Account{Namespace: "default", Name: "stranger"},
	cluster.Account{Namespace: "default", Name: "reader", Everywhere: []string{"metrics-reader"}},
)

// metricsAccess: 401 without a token and with a false one, 403 for a token without the right,
// and the metrics for one that has it.
func metricsAccess(w *world) {
	w.Apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: metrics-reader}, rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}")
	w.Apply(string(callers))
	controller := cluster.Asker{Client: cluster.HTTPClient(nil, ""), Base: fmt.Sprintf("https://127.0.0.1:%d", w.drill.MetricsPort)} // its certificate is not tested here
	get := func(token string) (int, string) {
		a := controller.Bearer(token).Do(w.T, http.MethodGet, "/metrics", nil)
		return a.Status, a.Text
	}
	if code, _ := get(""); code != http.StatusUnauthorized {
		w.T.Errorf("without a token: %d", code)
	}
	if code, _ := get("nonsense"); code != http.StatusUnauthorized {
		w.T.Errorf("with a false token: %d", code)
	}
	if code, body := get(w.Token("default", "stranger")); code != http.StatusForbidden || !strings.Contains(body, "stranger") {
		w.T.Errorf("of a stranger: %d %s", code, body)
	}
	reader := w.Token("default", "reader")
	w.Complete("metrics", func() string { // RBAC is cached
		code, body := get(reader)
		if code != http.StatusOK {
			return fmt.Sprintf("%d %s", code, body)
		}
		for _, name := range []string{`tangram_node_health{state="healthy"}`, `tangram_device_health{state="failed"}`, "tangram_mtbf_hours", "tangram_recovery_seconds_bucket", "tangram_detection_seconds_count",
			"tangram_isolations_suppressed_total", "tangram_scheduler_lease_age_seconds", "tangram_controller_leader 1"} {
			if !strings.Contains(body, name) {
				return "there is no " + name
			}
		}
		return ""
	})
}

// falseAlarm: when every node reports failures at once, nothing is isolated and no pod is
// evicted.
func falseAlarm(w *world) {
	w.pod("a-20", "innocent")
	innocent := w.running("innocent")
	nodes := w.List(cluster.Nodes)
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = w.drill.Break(w.T.Context(), n.GetName(), "device=all,gone") })
	}
	all.Wait()
	w.Must(errors.Join(errs...))
	if note := w.Event("Lease", "gpu-controller", "IsolationHeldBack"); !strings.Contains(note, "GPUs look sick") {
		w.T.Errorf("event %q", note)
	}
	w.Stays(looked, "the fleet", func() string {
		for _, n := range nodes {
			if wrong := w.isolated(n.GetName())(); wrong != "" {
				return n.GetName() + ": " + wrong
			}
		}
		return w.there(innocent)()
	})
}
