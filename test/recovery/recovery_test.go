package recovery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/drill"
)

// TestRecovery: each test has nodes of its own, and together they stay within the share of
// the fleet that may be isolated. The false alarm comes last.
func TestRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("faults", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world){
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
				test(t, w)
			})
		}
	})
	if !t.Failed() {
		t.Run("FalseAlarm", func(t *testing.T) { falseAlarm(t, w) })
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
func deviceIsVerified(t *testing.T, w *world) {
	const node = "a-0"
	w.pod(t, node, "hurt")
	w.pod(t, node, "beside")
	hurt, beside := w.running(t, "hurt"), w.running(t, "beside")
	index := drill.DevicesOf(hurt)[0]
	w.breaks(t, node, fmt.Sprintf("device=%d,gone", index))
	complete(t, "isolation", w.isolated(t, node, index))
	complete(t, "eviction", w.gone(t, hurt))
	for _, about := range []struct{ kind, name, reason string }{{"GPUNode", node, "GPUIsolated"}, {"Node", node, "GPUIsolated"}, {"Pod", "hurt", "EvictedByRecovery"}} {
		if note := w.event(t, about.kind, about.name, about.reason); !strings.Contains(note, "is Failed") {
			t.Errorf("event on %s: %q", about.kind, note)
		}
	}
	watch, err := w.Client.CoreV1().Pods("tangram-system").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-verify"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	w.breaks(t, node, "")
	timeout := time.After(patience)
	for tested := false; !tested; {
		select {
		case e := <-watch.ResultChan():
			if p, ok := e.Object.(*v1.Pod); ok && p.Spec.NodeName == node {
				tested = true
				if got := drill.DevicesOf(p); len(got) != 1 || got[0] != index {
					t.Errorf("the test pod has devices %v, want %d", got, index)
				}
			}
		case <-timeout:
			t.Fatal("no test pod")
		}
	}
	complete(t, "return", w.isolated(t, node))
	if wrong := w.there(t, beside)(); wrong != "" {
		t.Error(wrong)
	}
	w.pod(t, node, "again", func(p *v1.Pod) { p.Annotations[names.AnnotationUseIndex] = fmt.Sprint(index) })
	w.running(t, "again")
}

// operatorsDeviceCordon: a device that an operator has cordoned is left to him, and his
// cordon beside ours stays when ours goes.
func operatorsDeviceCordon(t *testing.T, w *world) {
	const node = "a-1"
	gn, err := w.GPUNode(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	his, both := gn.Spec.Devices[2].UUID, gn.Spec.Devices[3].UUID
	w.cordon(t, node, his)
	w.breaks(t, node, "device=2,gone; device=3,gone")
	complete(t, "isolation", w.isolated(t, node, 3))
	w.cordon(t, node, both)
	w.breaks(t, node, "")
	complete(t, "return", w.isolated(t, node))
	if gn, err = w.GPUNode(t.Context(), node); err != nil || strings.Join(gn.Spec.Cordoned, ",") != his+","+both {
		t.Errorf("cordoned are %v, want what the operator wrote (%v)", gn.Spec.Cordoned, err)
	}
}

// operatorsNodeCordon: a node that an operator cordoned before it was lost is cordoned
// when it is back.
func operatorsNodeCordon(t *testing.T, w *world) {
	const node = "a-2"
	w.setUnschedulable(t, node, true)
	if err := w.LoseNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.node(t, node, "is isolated", func(n *v1.Node) bool { return marked(n) && tainted(n) })
	if err := w.FindNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.node(t, node, "is released", func(n *v1.Node) bool { return !marked(n) && !tainted(n) })
	w.node(t, node, "is cordoned", func(n *v1.Node) bool { return n.Spec.Unschedulable })
	w.event(t, "Node", node, "NodeReleased")
}

// operatorLiftsIsolation: a node that an operator uncordons while it is sick is not
// isolated again until the fault has gone.
func operatorLiftsIsolation(t *testing.T, w *world) {
	const node = "a-3"
	if err := w.LoseNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.node(t, node, "is isolated", func(n *v1.Node) bool { return marked(n) && n.Spec.Unschedulable })
	w.setUnschedulable(t, node, false)
	w.node(t, node, "is his", func(n *v1.Node) bool { return !tainted(n) })
	stays(t, "node "+node, func() string {
		n, err := w.Client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil || n.Spec.Unschedulable || tainted(n) {
			return fmt.Sprintf("was isolated again (%v)", err)
		}
		return ""
	})
	if err := w.FindNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.node(t, node, "is forgotten", func(n *v1.Node) bool { return !marked(n) })
}

// budget makes a PodDisruptionBudget that lets none of a pod's go.
func (w *world) budget(t *testing.T, pod string) {
	t.Helper()
	one := intstr.FromInt32(1)
	_, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pod": pod}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	complete(t, "budget of "+pod, func() string {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil || b.Status.ObservedGeneration == 0 || b.Status.CurrentHealthy == 0 {
			return fmt.Sprintf("is not known yet (%v)", err)
		}
		return ""
	})
}

// disruptionBudget: a pod that a budget guards stays, is told why, and goes when the
// budget allows it.
func disruptionBudget(t *testing.T, w *world) {
	const node = "a-4"
	w.pod(t, node, "guarded")
	p := w.running(t, "guarded")
	w.budget(t, "guarded")
	w.breaks(t, node, fmt.Sprintf("device=%d,gone", drill.DevicesOf(p)[0]))
	if note := w.event(t, "Pod", "guarded", "EvictionRefused"); !strings.Contains(note, "disruption budget") {
		t.Errorf("event %q", note)
	}
	stays(t, "the guarded pod", w.there(t, p))
	if err := w.Client.PolicyV1().PodDisruptionBudgets("default").Delete(t.Context(), "guarded", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	complete(t, "eviction", w.gone(t, p))
	w.breaks(t, node, "")
	complete(t, "return", w.isolated(t, node))
}

func ofGang(name string, size int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = name, fmt.Sprint(size)
	}
}

// gangAsAWhole: when one member is lost, the others go with it, also on other nodes.
func gangAsAWhole(t *testing.T, w *world) {
	w.pod(t, "a-5", "member-0", ofGang("whole", 2))
	w.pod(t, "a-6", "member-1", ofGang("whole", 2))
	w.pod(t, "a-6", "stranger")
	first, second, stranger := w.running(t, "member-0"), w.running(t, "member-1"), w.running(t, "stranger")
	w.breaks(t, "a-5", fmt.Sprintf("device=%d,gone", drill.DevicesOf(first)[0]))
	complete(t, "the member on the failed GPU", w.gone(t, first))
	complete(t, "the other member", w.gone(t, second))
	if note := w.event(t, "Pod", "member-1", "EvictedByRecovery"); !strings.Contains(note, "fewer than 2 members") {
		t.Errorf("event %q", note)
	}
	if wrong := w.there(t, stranger)(); wrong != "" {
		t.Error(wrong)
	}
	w.breaks(t, "a-5", "")
	complete(t, "return", w.isolated(t, "a-5"))
}

// guardedGang: a budget that guards one member keeps all.
func guardedGang(t *testing.T, w *world) {
	w.pod(t, "a-7", "free-member", ofGang("guarded-gang", 2))
	w.pod(t, "a-8", "guarded-member", ofGang("guarded-gang", 2))
	free, guarded := w.running(t, "free-member"), w.running(t, "guarded-member")
	w.budget(t, "guarded-member")
	w.breaks(t, "a-7", fmt.Sprintf("device=%d,gone", drill.DevicesOf(free)[0]))
	w.event(t, "Pod", "guarded-member", "EvictionRefused")
	stays(t, "the gang", func() string { return w.there(t, free)() + w.there(t, guarded)() })
	w.breaks(t, "a-7", "")
	complete(t, "return", w.isolated(t, "a-7"))
}

// maintenance: at its time all pods but a DaemonSet's leave the node, and at its end it is
// put back. What cannot be read is said.
func maintenance(t *testing.T, w *world) {
	const node = "a-9"
	w.pod(t, node, "drained")
	w.pod(t, node, "drained-cpu", func(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} })
	gpu, cpu := w.running(t, "drained"), w.running(t, "drained-cpu")
	agents := func() string {
		list, err := w.Client.CoreV1().Pods("tangram-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-agent", FieldSelector: "spec.nodeName=" + node})
		if err != nil || len(list.Items) != 1 || list.Items[0].DeletionTimestamp != nil {
			return fmt.Sprintf("%d pods of the agent (%v)", len(list.Items), err)
		}
		return ""
	}
	complete(t, "the agent's pod", agents)
	start := time.Now().Add(6 * time.Second).UTC().Truncate(time.Second)
	if err := w.AnnotateNode(t.Context(), node, names.AnnotationMaintenance, start.Format(time.RFC3339)+"/12s"); err != nil {
		t.Fatal(err)
	}
	complete(t, "eviction", w.gone(t, gpu))
	if early := time.Until(start); early > 0 {
		t.Errorf("evicted %s before the maintenance", early)
	}
	complete(t, "eviction", w.gone(t, cpu))
	w.node(t, node, "is isolated", func(n *v1.Node) bool { return marked(n) && tainted(n) && n.Spec.Unschedulable })
	if wrong := agents(); wrong != "" {
		t.Error(wrong)
	}
	w.node(t, node, "is back", func(n *v1.Node) bool { return !marked(n) && !tainted(n) && !n.Spec.Unschedulable })
	if early := time.Until(start.Add(12 * time.Second)); early > 0 {
		t.Errorf("back %s before the end", early)
	}
	if err := w.AnnotateNode(t.Context(), node, names.AnnotationMaintenance, "tomorrow"); err != nil {
		t.Fatal(err)
	}
	if note := w.event(t, "Node", node, "InvalidMaintenance"); !strings.Contains(note, names.AnnotationMaintenance) || !strings.Contains(note, "tomorrow") {
		t.Errorf("event %q", note)
	}
}

// overMemory: a pod that uses more GPU memory than its share is evicted, one that keeps to
// it is not.
func overMemory(t *testing.T, w *world) {
	const node = "a-10"
	share := func(used string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations[names.AnnotationSimulatedMemory] = used
			p.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("8000")
		}
	}
	w.pod(t, node, "fair", share("8000"))
	w.pod(t, node, "greedy", share("20000"))
	fair, greedy := w.running(t, "fair"), w.running(t, "greedy")
	complete(t, "eviction", w.gone(t, greedy))
	if note := w.event(t, "Pod", "greedy", "EvictedByRecovery"); !strings.Contains(note, "uses 20000 MiB") {
		t.Errorf("event %q", note)
	}
	if wrong := w.there(t, fair)(); wrong != "" {
		t.Error(wrong)
	}
	complete(t, "GPUNode", func() string { // and it is forgotten
		gn, err := w.GPUNode(t.Context(), node)
		if err != nil {
			return err.Error()
		}
		for _, d := range gn.Status.Devices {
			if len(d.OverMemory) > 0 {
				return fmt.Sprintf("still lists %+v", d.OverMemory)
			}
		}
		return ""
	})
}

// metricsAccess: 401 without a token and with a false one, 403 for who may not, and the
// metrics for who may.
func metricsAccess(t *testing.T, w *world) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // who answers is not the question here
	get := func(token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", w.MetricsPort), nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	token := func(account string) string {
		if _, err := w.Client.CoreV1().ServiceAccounts("default").Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r, err := w.Client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	if code, _ := get(""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, _ := get("nonsense"); code != http.StatusUnauthorized {
		t.Errorf("with a false token: %d", code)
	}
	if code, body := get(token("stranger")); code != http.StatusForbidden || !strings.Contains(body, "stranger") {
		t.Errorf("of a stranger: %d %s", code, body)
	}
	if _, err := w.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reader := token("reader")
	complete(t, "metrics", func() string { // RBAC is cached
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

// falseAlarm: when every node reports failures at once, nothing is isolated and nobody
// evicted.
func falseAlarm(t *testing.T, w *world) {
	w.pod(t, "a-20", "innocent")
	innocent := w.running(t, "innocent")
	nodes, err := w.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(nodes.Items))
	var all sync.WaitGroup
	for i, n := range nodes.Items {
		all.Go(func() { errs[i] = w.Break(t.Context(), n.Name, "device=all,gone") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if note := w.event(t, "Lease", "gpu-controller", "IsolationHeldBack"); !strings.Contains(note, "GPUs look sick") {
		t.Errorf("event %q", note)
	}
	stays(t, "the fleet", func() string {
		for _, n := range nodes.Items {
			if wrong := w.isolated(t, n.Name)(); wrong != "" {
				return n.Name + ": " + wrong
			}
		}
		return w.there(t, innocent)()
	})
}
