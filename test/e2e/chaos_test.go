package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

const mixedFleet = `
pools:
- {name: a100, count: 120, gpu: {model: A100-80GB, count: 8}, cpu: 96, memory: 1Ti}
- {name: v100, count: 60, gpu: {model: V100-32GB, count: 4}, cpu: 48, memory: 384Gi}
- {name: t4, count: 60, gpu: {model: T4, count: 2}, cpu: 24, memory: 128Gi}
- {name: mi300x, count: 10, gpu: {model: MI300X, count: 8}, cpu: 96, memory: 1Ti}
`

// mixedPod is one of many kinds of pods. Together 500 of them leave the fleet
// some room, so all can be placed in any order.
func mixedPod(i int, random *rand.Rand) *v1.Pod {
	gpus := []int{1, 1, 1, 2, 2, 4}[random.IntN(6)]
	return pod(fmt.Sprintf("p%03d", i), gpus, func(p *v1.Pod) {
		if i%3 == 0 {
			p.Spec.SchedulerName = names.VolcanoSchedulerName
		}
		switch random.IntN(8) {
		case 0:
			p.Annotations[names.AnnotationUseModel] = "A100"
		case 1:
			p.Annotations[names.AnnotationAvoidModel] = "T4"
		case 2:
			p.Spec.NodeSelector = map[string]string{names.LabelAccelerator: "nvidia-tesla-a100"}
		case 3:
			limits := p.Spec.Containers[0].Resources.Limits
			delete(limits, names.ResourceNVIDIA)
			limits[names.ResourceAMD] = *resource.NewQuantity(1, resource.DecimalSI)
		case 4:
			init := *p.Spec.Containers[0].DeepCopy()
			init.Name = "init"
			p.Spec.InitContainers = []v1.Container{init}
		case 5:
			// A preference of its own: the whole way, with scores.
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{
				Weight: 10, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: names.LabelAccelerator, Operator: v1.NodeSelectorOpIn, Values: []string{"nvidia-tesla-v100"}},
				}},
			}}}}
		}
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	})
}

// TestKilledThreeTimes: 500 mixed pods while the scheduler is killed and started
// again three times. Every pod is bound, no device is held twice, and the ledger
// the last scheduler rebuilt equals the records.
func TestKilledThreeTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(mixedFleet)
	const total = 500
	random := rand.New(rand.NewPCG(1, 2))
	pods := make([]*v1.Pod, total)
	for i := range pods {
		pods[i] = mixedPod(i, random)
	}

	scheduler := w.Scheduler(nil)
	var creating sync.WaitGroup
	creating.Go(func() {
		for i, p := range pods {
			if _, err := w.Client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
				t.Errorf("create %s: %v", p.Name, err)
				return
			}
			// About 250 pods per second, so that every life of the scheduler is in
			// the middle of work when it ends.
			if i%25 == 24 {
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	boundPods := func() int {
		n := 0
		for _, p := range w.AllPods() {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		return n
	}
	for _, at := range []int{50, 175, 300} {
		w.Eventually(fmt.Sprintf("%d pods bound", at), func() (bool, string) {
			n := boundPods()
			return n >= at, fmt.Sprint(n)
		})
		w.Must(scheduler.Kill())
		scheduler = w.Scheduler(nil)
	}
	creating.Wait()
	w.Eventually("all pods bound", func() (bool, string) {
		waiting := ""
		for _, p := range w.AllPods() {
			if p.Spec.NodeName == "" {
				waiting += p.Name + " " + cluster.Waiting(&p) + "\n"
			}
		}
		return waiting == "" && len(w.AllPods()) == total, waiting
	})
	devices := w.CheckRecords()
	t.Logf("%d pods hold %d devices", total, devices)
	w.selfCheck(scheduler, total)
}

// selfCheck asks a scheduler to compare its ledger with the API.
func (w *world) selfCheck(scheduler *local.Serving, holders int) {
	w.T.Helper()
	want := fmt.Sprintf("holders=%d", holders)
	w.Eventually("the ledger equals the records", func() (bool, string) {
		if err := syscall.Kill(scheduler.Pid(), syscall.SIGUSR2); err != nil {
			return false, err.Error()
		}
		time.Sleep(200 * time.Millisecond)
		log, err := os.ReadFile(scheduler.Log())
		if err != nil {
			return false, err.Error()
		}
		last := ""
		for line := range strings.SplitSeq(string(log), "\n") {
			if strings.Contains(line, "Ledger check") {
				last = line
			}
		}
		return strings.Contains(last, "passed") && strings.Contains(last, want), last
	})
}

// TestFailover: two replicas; the leader is killed in the middle of work, the
// second takes over and hands nothing out twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(mixedFleet)
	flags := cluster.Elect(3 * time.Second)
	first := w.Scheduler(nil, flags...)
	w.Create(pod("before", 1))
	w.Placed("before")
	second := w.Scheduler(nil, flags...)

	random := rand.New(rand.NewPCG(3, 4))
	const total = 200
	for i := range total {
		w.Create(mixedPod(i, random))
		if i == total/2 {
			w.Must(first.Kill())
		}
	}
	w.Eventually("all pods bound", func() (bool, string) {
		waiting := 0
		for _, p := range w.AllPods() {
			if p.Spec.NodeName == "" {
				waiting++
			}
		}
		return waiting == 0, fmt.Sprintf("%d wait", waiting)
	})
	w.CheckRecords()
	w.selfCheck(second, total+1)
}
