package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHoleNineShares: nine HAMi shares would fit on the cards of one node, but each
// counts as one of the eight nvidia.com/gpu that kube-scheduler's own resource fit sees
// there. The plan knows that: the gang starts on two nodes, and so does a gang behind it.
func TestHoleNineShares(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 3, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.Scheduler(nil, cluster.Alone, cluster.OpenMetrics)
	share := asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "10"})
	w.createGang("nine", 9, 0, share)
	w.createGang("whole", 2, 4)
	w.gangNodes("nine-", 9)
	w.gangNodes("whole-", 2)
	if n := w.Attempts(scheduler); n > 2*(9+2) {
		t.Errorf("%d attempts to place 11 pods: plans were refused", n)
	}
}

// TestHoleRefusedPlans: gangs whose plans kube-scheduler's filters refuse again and
// again, for reasons that the plan cannot know, are tried with growing pauses.
func TestHoleRefusedPlans(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.Scheduler(nil, cluster.Alone, cluster.OpenMetrics)
	const gangs, size = 10, 4
	for g := range gangs {
		w.createGang(fmt.Sprintf("refused-%d", g), size, 1, cluster.Needs(fmt.Sprintf("example.com/made-up-%d", g), "1"), claiming(fmt.Sprintf("missing-%d", g)))
	}
	w.noneBound("refused-", 20*time.Second)
	// Pauses double from a second: five tries of each pod, and a few in which it is tried anew.
	if n := w.Attempts(scheduler); n > 8*gangs*size {
		t.Errorf("%d attempts to place %d pods that cannot start", n, gangs*size)
	}
	w.starts(pod("plain", 1))
}

// TestHoleLostPod: while many gangs start, bindings are refused at random, nodes gain and
// lose a resource that the plan does not know, and members go and come back. So members
// fail, wait in kube-scheduler's back-off queue and are activated again all the time.
// When everything is allowed again all are bound: none is lost between its queues.
func TestHoleLostPod(t *testing.T) {
	t.Parallel()
	const nodes, gangs, size = 24, 40, 4
	w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, nodes))
	scheduler := w.Scheduler(nil)
	random := rand.New(rand.NewPCG(9, 16))
	var all []*v1.Pod
	for g := range gangs {
		for i := range size {
			// The last digit decides which of the policies below refuses it.
			name := fmt.Sprintf("g%d-%d-%d", g, i, random.IntN(10))
			p := pod(name, 1, cluster.Gang(fmt.Sprintf("g%d", g), size))
			if g%2 == 0 {
				cluster.Needs("rdma/hca", "1")(p)
			}
			all = append(all, p)
		}
	}
	w.Deny(refused("0-3"))
	w.CreateAll(all)
	for round := range 60 { // fifteen seconds and more
		if round%8 == 0 {
			w.Deny(refused([]string{"0-3", "4-6", "7-9"}[random.IntN(3)]))
		}
		for range 3 {
			w.adapters(random.IntN(nodes), []string{"0", "2", "8"}[random.IntN(3)])
		}
		if round%2 == 0 {
			p := all[random.IntN(len(all))]
			now := int64(0)
			_ = w.Client.CoreV1().Pods("default").Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			w.Create(p)
		}
		time.Sleep(200 * time.Millisecond)
	}
	for i := range nodes {
		w.adapters(i, "8")
	}
	w.Admit(refused(""))
	w.Eventually("all members are bound", func() (bool, string) {
		var lost []string
		for _, p := range w.AllPods() {
			if p.Spec.NodeName == "" {
				lost = append(lost, p.Name+" "+cluster.Waiting(&p))
			}
		}
		return len(lost) == 0, fmt.Sprintf("%d wait: %s", len(lost), strings.Join(lost, "; "))
	})
	lines, _ := w.logLines(scheduler, 0)
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "tracked in multiple places") }); i >= 0 {
		t.Errorf("the scheduler's queue holds a pod twice: %s", lines[i])
	}
	w.CheckRecords()
}

// adapters sets how many rdma/hca a node has.
func (w *world) adapters(node int, amount string) {
	w.T.Helper()
	w.Patch(cluster.Nodes, fmt.Sprintf("n-%d", node), fmt.Sprintf(`{"status":{"allocatable":{"rdma/hca":%q},"capacity":{"rdma/hca":%q}}}`, amount, amount), "status")
}

// refused are Bindings of pods whose names end with one of some digits.
func refused(digits string) cluster.Denial {
	return cluster.Bindings("random", fmt.Sprintf("!request.name.matches('[%s]$')", digits))
}
