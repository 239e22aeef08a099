package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHoleSystemPods: a queue is due three quarters of the cluster and takes them back.
// Pods of kube-system and of the system priority classes are never victims, neither of reclaim nor of preemption by priority.
func TestHoleSystemPods(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	w.AddQueue("lender", "{weight: 3}")
	w.AddQueue("borrower", "{weight: 1}")
	w.AddPriorityClass("urgent", 1_000_000)
	w.Scheduler(nil)
	quick := func(p *v1.Pod) { now := int64(0); p.Spec.TerminationGracePeriodSeconds = &now }
	for i := range 8 {
		w.Create(pod(fmt.Sprintf("ordinary-%d", i), 1, cluster.Queue("borrower"), quick))
	}
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("system-node-%d", i), 1, cluster.Queue("borrower"), quick, cluster.In("kube-system"), cluster.Priority("system-node-critical")))
		w.Create(pod(fmt.Sprintf("system-cluster-%d", i), 1, cluster.Queue("borrower"), quick, cluster.Priority("system-cluster-critical")))
	}
	for i := range 2 {
		w.Create(pod(fmt.Sprintf("system-plain-%d", i), 1, cluster.Queue("borrower"), quick, cluster.In("kube-system")))
	}
	w.gangNodes("ordinary-", 8)
	w.gangNodes("system-", 8)
	spared := func(when string) {
		t.Helper()
		if n := w.left("system-"); n != 8 {
			var left []string
			for _, p := range w.AllPods() {
				if strings.HasPrefix(p.Name, "system-") && p.DeletionTimestamp == nil {
					left = append(left, p.Name)
				}
			}
			t.Fatalf("%s: %d of 8 system pods are left: %v", when, n, left)
		}
	}

	for i := range 12 { // its share
		w.Create(pod(fmt.Sprintf("lender-%d", i), 1, cluster.Queue("lender"), quick))
	}
	w.Eventually("the ordinary pods have made room", func() (bool, string) {
		bound := 0
		for _, p := range w.AllPods() {
			if strings.HasPrefix(p.Name, "lender-") && p.Spec.NodeName != "" {
				bound++
			}
		}
		return bound >= 8, fmt.Sprintf("%d of the lender's pods are bound, %d ordinary and %d system pods are left", bound, w.left("ordinary-"), w.left("system-"))
	})
	for range 20 { // it is still due four more, and gets none of these
		time.Sleep(500 * time.Millisecond)
		spared("reclaim")
	}
	w.Create(pod("important", 1, cluster.Queue("borrower"), quick, cluster.Priority("urgent")))
	for range 10 {
		time.Sleep(500 * time.Millisecond)
		spared("preemption by priority")
	}
	w.CheckRecords()
}
