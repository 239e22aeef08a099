package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestGangPreemption: a full cluster of small pods of low priority. A gang that must
// have room gets it by as few evictions as can be; no pod is evicted where that does not
// help, for a gang that may not preempt, or against a disruption budget.
func TestGangPreemption(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{KWOK: true}, `
pools:
- {name: n, count: 12, gpu: {model: A100-80GB, count: 8}}
`)
	w.Scheduler(nil)
	w.AddPriorityClass("low", 10)
	w.AddPriorityClass("high", 1000)
	w.AddPriorityClass("polite", 1000, "preemptionPolicy: Never")

	// Nodes 0 to 3 are full of pods of one GPU, 4 to 11 of pods of two: the cheapest
	// eight nodes are the latter, four pods each. One pod there is protected, so that
	// a node of small ones has to go: 7*4 + 8.
	onNode := func(i int) func(*v1.Pod) {
		return cluster.On(v1.LabelHostname, fmt.Sprintf("n-%d", i))
	}
	low := 0
	for i := range 12 {
		each := 1
		if i >= 4 {
			each = 2
		}
		for j := range 8 / each {
			w.Create(pod(fmt.Sprintf("low-%d-%d", i, j), each, cluster.Priority("low"), onNode(i), cluster.Label("node", fmt.Sprint(i)), cluster.Label("number", fmt.Sprint(j))))
			low++
		}
	}
	w.gangNodes("low-", low)
	w.budget("protected", map[string]string{"node": "7", "number": "0"})

	// No pod is evicted where it does not help, nor for a gang that may not preempt.
	w.createGang("huge", 13, 8, cluster.Priority("high"))
	w.Waits("huge-0", "can never fit")
	w.createGang("polite", 2, 8, cluster.Priority("polite"))
	w.Waits("polite-0", "waits for capacity")
	w.createGang("equal", 2, 8, cluster.Priority("low"))
	w.Waits("equal-0", "waits for capacity")
	time.Sleep(2 * time.Second)
	if got := w.left("low-"); got != low {
		t.Fatalf("%d of %d pods are left, and no gang could be helped", got, low)
	}

	w.createGang("urgent", 8, 8, cluster.Priority("high"))
	nodes := w.gangNodes("urgent-", 8)
	if len(nodes) != 8 {
		t.Errorf("on %d nodes", len(nodes))
	}
	if nodes["n-7"] != 0 {
		t.Error("a member is on the node of the protected pod")
	}
	if p := w.Get("low-7-0"); p.DeletionTimestamp != nil {
		t.Error("the protected pod is being evicted")
	}
	if evicted := low - w.left("low-"); evicted != 7*4+8 {
		t.Errorf("%d pods were evicted, %d are enough", evicted, 7*4+8)
	} else {
		t.Logf("%d of %d pods were evicted, the fewest", evicted, low)
	}
	w.Event("Pod", "low-5-0", "evicted for default/urgent")
	w.noneBound("polite-", time.Second)
	// No loop: those evicted come back as they were, and wait.
	for j := range 4 {
		w.Create(pod(fmt.Sprintf("again-%d", j), 2, cluster.Priority("low")))
	}
	w.noneBound("again-", time.Second)
	w.CheckRecords()
}

// TestReclaim: what a queue was lent it gives back within a minute, though its pods
// would run for ever: as many go as are due, and no more.
func TestReclaim(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{KWOK: true}, `
pools:
- {name: n, count: 2, gpu: {model: A100-80GB, count: 8}}
`)
	w.AddQueue("lender", "{weight: 1}")
	w.AddQueue("borrower", "{weight: 3}")
	w.Scheduler(nil)
	for i := range 16 {
		w.Create(pod(fmt.Sprintf("borrower-%d", i), 1, cluster.Queue("borrower")))
	}
	w.gangNodes("borrower-", 16)
	start := time.Now()
	w.createGang("lender", 4, 1, cluster.Queue("lender"))
	w.gangNodes("lender-", 4)
	t.Logf("the share came back within %s", time.Since(start).Round(10*time.Millisecond))
	w.Create(pod("more", 1, cluster.Queue("lender"))) // above its share
	w.noneBound("more", 3*time.Second)
	if n := w.left("borrower-"); n != 12 {
		t.Errorf("%d of the borrower's pods are left, its share is 12", n)
	}
	w.CheckRecords()
}

// left counts pods with a prefix that are not going away.
func (w *world) left(prefix string) int {
	w.T.Helper()
	n := 0
	for _, p := range w.AllPods() {
		if strings.HasPrefix(p.Name, prefix) && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// budget makes a PodDisruptionBudget that allows nothing, as its controller reports
// it.
func (w *world) budget(name string, match map[string]string) {
	w.T.Helper()
	zero := intstr.FromInt32(0)
	budgets := w.Client.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Create(context.Background(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &zero, Selector: &metav1.LabelSelector{MatchLabels: match}},
	}, metav1.CreateOptions{})
	w.Must(err)
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	if _, err := budgets.UpdateStatus(context.Background(), b, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
}
