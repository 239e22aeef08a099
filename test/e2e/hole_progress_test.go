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

	"github.com/tangram-dev/tangram/internal/local"
)

// TestHoleNineShares: nine HAMi shares would fit on the cards of one node, but each
// counts as one of the eight nvidia.com/gpu that kube-scheduler's own resource fit sees
// there. The plan knows that: the gang starts on two nodes, and so does a gang behind it.
func TestHoleNineShares(t *testing.T) {
	t.Parallel()
	knownHole(t, "H15-shares")
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 3, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.scheduler(nil)
	share := asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "10"})
	start, used := time.Now(), w.cpuTime(scheduler)
	w.createGang("nine", 9, 0, share)
	w.createGang("whole", 2, 4)
	w.eventually("both gangs start", 45*time.Second, func() (bool, string) {
		return w.boundIn("nine-") == 9 && w.boundIn("whole-") == 2, fmt.Sprintf("%d shares and %d whole ones are bound; %s; the scheduler used %s of processor time in %s",
			w.boundIn("nine-"), w.boundIn("whole-"), waitsFor(w.get("nine-0")), w.cpuTime(scheduler)-used, time.Since(start).Round(time.Second))
	})
	if spent, took := w.cpuTime(scheduler)-used, time.Since(start); spent > took/4+5*time.Second {
		t.Errorf("the scheduler used %s of processor time in %s", spent, took)
	}
}

// TestHoleRefusedPlans: gangs whose plans kube-scheduler's filters refuse again and
// again, for reasons that the plan cannot know, cost next to nothing while they wait.
func TestHoleRefusedPlans(t *testing.T) {
	t.Parallel()
	knownHole(t, "H15-backoff")
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.scheduler(nil)
	for g := range 10 {
		w.createGang(fmt.Sprintf("refused-%d", g), 4, 1, func(p *v1.Pod) {
			needing(fmt.Sprintf("example.com/made-up-%d", g), "1")(p)
			claiming(fmt.Sprintf("missing-%d", g))(p)
		})
	}
	time.Sleep(10 * time.Second) // the first tries
	used := w.cpuTime(scheduler)
	time.Sleep(20 * time.Second)
	spent := w.cpuTime(scheduler) - used
	t.Logf("ten refused gangs cost %s of processor time in 20 s", spent)
	if spent > 4*time.Second {
		t.Errorf("the scheduler used %s of processor time in 20 s for gangs that cannot start", spent)
	}
	t.Logf("beside them a plain pod started after %s", w.startsWithin(20*time.Second, pod("plain", 1)))
}

// TestHoleLostPod: while many gangs start, bindings are refused at random, nodes gain and
// lose a resource that the plan does not know, and members go and come back. So members
// fail, wait in kube-scheduler's back-off queue and are activated again all the time.
// When everything is allowed again all are bound: none is lost between its queues.
func TestHoleLostPod(t *testing.T) {
	t.Parallel()
	knownHole(t, "H16")
	const nodes, gangs, size = 24, 40, 4
	w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, nodes))
	scheduler := w.scheduler(nil)
	random := rand.New(rand.NewPCG(9, 16))
	var all []*v1.Pod
	for g := range gangs {
		for i := range size {
			// The last digit decides which of the policies below refuses it.
			name := fmt.Sprintf("g%d-%d-%d", g, i, random.IntN(10))
			p := pod(name, 1, gangLabels(fmt.Sprintf("g%d", g), size))
			if g%2 == 0 {
				needing("rdma/hca", "1")(p)
			}
			all = append(all, p)
		}
	}
	w.refuseBindings("0-3")
	w.createAll(all)
	for round := range 60 { // fifteen seconds and more
		if round%8 == 0 {
			w.refuseBindings([]string{"0-3", "4-6", "7-9"}[random.IntN(3)])
		}
		for range 3 {
			w.adapters(random.IntN(nodes), []string{"0", "2", "8"}[random.IntN(3)])
		}
		if round%2 == 0 {
			p := all[random.IntN(len(all))]
			now := int64(0)
			_ = w.client.CoreV1().Pods("default").Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			w.create(p)
		}
		time.Sleep(200 * time.Millisecond)
	}
	for i := range nodes {
		w.adapters(i, "8")
	}
	if err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(context.Background(), "random", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("all members are bound", 90*time.Second, func() (bool, string) {
		var lost []string
		for _, p := range w.pods() {
			if p.Spec.NodeName == "" {
				lost = append(lost, p.Name+" "+waitsFor(&p))
			}
		}
		return len(lost) == 0, fmt.Sprintf("%d wait: %s", len(lost), strings.Join(lost, "; "))
	})
	lines, _ := w.logLines(scheduler, 0)
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "tracked in multiple places") }); i >= 0 {
		t.Errorf("the scheduler's queue holds a pod twice: %s", lines[i])
	}
	w.checkRecords()
}

// adapters sets how many rdma/hca a node has.
func (w *world) adapters(node int, amount string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"status":{"allocatable":{"rdma/hca":%q},"capacity":{"rdma/hca":%q}}}`, amount, amount)
	_, err := w.client.CoreV1().Nodes().Patch(context.Background(), fmt.Sprintf("n-%d", node), "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		w.t.Fatal(err)
	}
}

// refuseBindings makes the API server refuse to bind pods whose names end with one of
// some digits.
func (w *world) refuseBindings(digits string) {
	w.t.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: random}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}]}
  validations: [{expression: "!request.name.matches('[%s]$')"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: random}
spec: {policyName: random, validationActions: [Deny]}
`, digits))
}
