package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// limitFleet has whole GPUs of two models, cards that can be cut, and Ascend cards.
const limitFleet = `
pools:
- {name: a100, count: 2, gpu: {model: A100-80GB, count: 8, mig: true}}
- {name: t4, count: 2, gpu: {model: T4, count: 4}}
- {name: ascend, count: 1}
`

// TestHoleLimits: nothing that a tenant may write gets it more than its queue's
// capability, and a Queue's status shows what is charged.
func TestHoleLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, hole string
		run        func(w *world)
	}{
		{"relabelled", "H4-relabel", relabelled},
		{"contradictions", "H4-contradictions", contradictions},
		{"Volcano's queue name", "H4-volcano-queue", volcanoQueueName},
		{"shares in status", "H4-shares", sharesInStatus},
		{"MIG capability", "H4-mig", migCapability},
		{"Ascend capability", "H4-ascend", ascendCapability},
		{"MIG on a mixed fleet", "H17", migOnMixedFleet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := startWorld(t, local.Options{}, config.RBAC(), config.CRDs(), config.VolcanoCRDs(), config.ControllerRBAC())
			w.Fleet(limitFleet)
			w.publish("ascend-0", map[string]string{"huawei.com/Ascend910B3": "4", "huawei.com/Ascend910B3-memory": "262144"}, nil)
			w.Scheduler(nil)
			tt.run(w)
		})
	}
}

// boundIn counts bound pods with a prefix.
func (w *world) boundIn(prefix string) int {
	w.T.Helper()
	n := 0
	for _, p := range w.AllPods() {
		if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" && live(&p) {
			n++
		}
	}
	return n
}

// atMost waits until n pods with a prefix are bound, and checks for a while that it
// does not become more.
func (w *world) atMost(n int, prefix string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d pods %s* are bound", n, prefix), func() (bool, string) {
		got := w.boundIn(prefix)
		return got >= n, fmt.Sprintf("%d are bound", got)
	})
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got := w.boundIn(prefix); got != n {
			w.T.Fatalf("%d pods %s* are bound, the queue's limit allows %d", got, prefix, n)
		}
	}
}

// relabelled: what a running pod's owner edits does not free what it holds.
func relabelled(w *world) {
	w.AddQueue("small", "{weight: 1, capability: {nvidia.com/gpu: 2}}")
	w.AddQueue("other", "{weight: 1}")
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("p-%d", i), 1, cluster.Queue("small")))
	}
	w.atMost(2, "p-")
	var running []string
	for _, p := range w.AllPods() {
		if p.Spec.NodeName != "" {
			running = append(running, p.Name)
		}
	}
	w.Patch(cluster.Pods, running[0], fmt.Sprintf(`{"metadata":{"labels":{%q:"other"}}}`, names.LabelQueue))
	w.Patch(cluster.Pods, running[1], fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, names.LabelQueue))
	w.atMost(2, "p-")
	w.Scheduler(nil) // nor does a restart forget it
	w.Must(w.Process("gpu-scheduler-1").Kill())
	w.atMost(2, "p-")
	w.Delete(running[0]) // what ends, frees it
	w.Eventually("another starts", func() (bool, string) {
		return w.boundIn("p-") == 2, fmt.Sprintf("%d are bound", w.boundIn("p-"))
	})
}

// contradictions: a gang whose members contradict each other is refused, and each field
// is named.
func contradictions(w *world) {
	w.AddQueue("first", "{weight: 1}")
	w.AddQueue("second", "{weight: 1, capability: {nvidia.com/gpu: 1}}")
	w.AddPriorityClass("high", 1000)
	cases := []struct {
		name, field string
		change      func(i int) func(*v1.Pod)
	}{
		{"queues", names.LabelQueue, func(i int) func(*v1.Pod) { return cluster.Queue([]string{"first", "second"}[i]) }},
		{"sizes", names.LabelGangSize, func(i int) func(*v1.Pod) { return cluster.Label(names.LabelGangSize, fmt.Sprint(2+i)) }},
		{"topologies", names.AnnotationTopology, func(i int) func(*v1.Pod) {
			return cluster.Annotate(names.AnnotationTopology, []string{"required=rack", "required=zone"}[i])
		}},
		{"priorities", "priority", func(i int) func(*v1.Pod) { return cluster.Priority([]string{"", "high"}[i]) }},
	}
	for _, tt := range cases {
		for i := range 2 {
			w.Create(pod(fmt.Sprintf("%s-%d", tt.name, i), 1, cluster.Gang(tt.name, 2), tt.change(i)))
		}
	}
	// Each has the same time to be refused; all that are not are reported.
	deadline := time.Now().Add(20 * time.Second)
	for _, tt := range cases {
		told := func() string {
			return cluster.Waiting(w.Get(tt.name+"-0")) + "; " + cluster.Waiting(w.Get(tt.name+"-1"))
		}
		for !strings.Contains(told(), tt.field) && time.Now().Before(deadline) {
			time.Sleep(200 * time.Millisecond)
		}
		if !strings.Contains(told(), tt.field) || w.boundIn(tt.name+"-") > 0 {
			w.T.Errorf("gang %s: %d of 2 members are bound, and they are told %q: want none, and %q", tt.name, w.boundIn(tt.name+"-"), told(), tt.field)
		}
	}
}

// volcanoQueueName: pods that name their queue as Volcano's jobs do are charged to the
// queue whose status shows them.
func volcanoQueueName(w *world) {
	w.Controller()
	w.AddQueue("small", "{weight: 1, capability: {nvidia.com/gpu: 1}}")
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("p-%d", i), 1, cluster.Annotate(batch.QueueNameKey, "small")))
	}
	w.Eventually("the first starts", func() (bool, string) { return w.boundIn("p-") > 0, "none is bound" })
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		charged := w.queue("small").Allocated[names.ResourceNVIDIA]
		if charged.MilliValue() > 1000 {
			w.T.Fatalf("the status of queue small shows %s GPUs in use, its capability is 1", charged.String())
		}
	}
}

// sharesInStatus: half a GPU is charged as half a GPU, and shown as that.
func sharesInStatus(w *world) {
	w.Controller()
	w.AddQueue("halves", "{weight: 1, capability: {nvidia.com/gpu: 1}}")
	half := asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"})
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("half-%d", i), 0, half, cluster.Queue("halves"), cluster.Annotate(names.AnnotationUseModel, "T4")))
	}
	w.atMost(2, "half-")
	w.Eventually("the status shows one GPU", func() (bool, string) {
		shown := w.queue("halves").Allocated[names.ResourceNVIDIA]
		return shown.MilliValue() == 1000, shown.String()
	})
	for _, p := range w.AllPods() {
		if p.Spec.NodeName == "" {
			w.Delete(p.Name) // the one that waits
		}
	}
	for _, p := range w.AllPods() {
		w.Delete(p.Name)
		break
	}
	w.Eventually("the status shows half a GPU", func() (bool, string) {
		shown := w.queue("halves").Allocated[names.ResourceNVIDIA]
		return shown.MilliValue() == 500, shown.String()
	})
}

// migCapability: a limit on slices is a limit.
func migCapability(w *world) {
	w.AddQueue("slices", "{weight: 1, capability: {nvidia.com/mig-1g.10gb: 2}}")
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("slice-%d", i), 0, asking(map[string]string{"nvidia.com/mig-1g.10gb": "1"}), cluster.Queue("slices")))
	}
	w.atMost(2, "slice-")
}

// ascendCapability: a limit on Ascend cards is a limit.
func ascendCapability(w *world) {
	w.AddQueue("cards", "{weight: 1, capability: {huawei.com/Ascend910B3: 2}}")
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("card-%d", i), 0, asking(map[string]string{"huawei.com/Ascend910B3": "1"}), cluster.Queue("cards")))
	}
	w.atMost(2, "card-")
}

// migOnMixedFleet: a slice of all seven parts is a whole GPU, whatever other models
// there are that cannot be cut.
func migOnMixedFleet(w *world) {
	w.AddQueue("two", "{weight: 1, capability: {nvidia.com/gpu: 2}}")
	for i := range 6 {
		w.Create(pod(fmt.Sprintf("seven-%d", i), 0, asking(map[string]string{"nvidia.com/mig-7g.80gb": "1"}), cluster.Queue("two")))
	}
	w.atMost(2, "seven-")
}
