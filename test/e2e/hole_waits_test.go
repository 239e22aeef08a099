package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHoleVisibleWaits: a pod that waits for quota, for members, for a queue that does
// not exist or behind others says so in its condition for as long as it waits, and an
// autoscaler does not take it for unschedulable.
func TestHoleVisibleWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, pod string
		make      func(w *world)
		says      []string
		never     []string
	}{
		{"quota", "second", func(w *world) {
			w.AddQueue("small", "{weight: 1, capability: {nvidia.com/gpu: 1}}")
			w.Create(pod("first", 1, cluster.Queue("small")))
			w.Placed("first")
			w.Create(pod("second", 1, cluster.Queue("small")))
		}, []string{"quota", "small", "1"}, nil},
		{"members", "m-0", func(w *world) {
			for i := range 2 {
				w.Create(pod(fmt.Sprintf("m-%d", i), 1, cluster.Gang("m", 3)))
			}
		}, []string{"members", "2", "3"}, nil},
		{"no-queue", "lost", func(w *world) {
			w.AddQueue("research", "{weight: 1}")
			w.Create(pod("lost", 1, cluster.Queue("resarch")))
		}, []string{"no queue", "resarch"}, []string{"waits for quota"}},
		{"ahead", "small", func(w *world) {
			// One node is busy for an hour, and both are kept for a gang of two.
			w.Create(pod("runs", 8, cluster.Annotate(names.AnnotationRuntime, "1h")))
			w.Placed("runs")
			w.createGang("big", 2, 8)
			w.Waits("big-0", "kept for it")
			w.Create(pod("small", 1))
		}, []string{"big"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
			w.AddQueue("idle", "{weight: 1}")
			w.Scheduler(nil)
			tt.make(w)
			w.Eventually("pod "+tt.pod+" has a condition that says why it waits", func() (bool, string) {
				c := cluster.Scheduled(w.Get(tt.pod))
				seen := fmt.Sprintf("status %q reason %q message %q; events %q", c.Status, c.Reason, c.Message, w.Events("Pod", tt.pod))
				ok := c.Status == v1.ConditionFalse && c.Reason != "" && (c.Reason != v1.PodReasonUnschedulable || tt.name == "ahead")
				for _, s := range tt.says {
					ok = ok && strings.Contains(c.Message, s)
				}
				for _, s := range tt.never {
					ok = ok && !strings.Contains(c.Message, s)
				}
				return ok, seen
			})
		})
	}
}

// TestHoleEvents: events about pods of profile gpu-scheduler are reported by
// gpu-scheduler, and a victim reads for which pod it goes, by name.
func TestHoleEvents(t *testing.T) {
	t.Parallel()
	for _, queue := range []bool{false, true} {
		name := map[bool]string{false: "without-queue", true: "with-queue"}[queue]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]`)
			if queue {
				w.AddQueue("idle", "{weight: 1}")
			}
			w.AddPriorityClass("low", 10)
			w.AddPriorityClass("high", 1000)
			w.Scheduler(nil)
			quick := func(p *v1.Pod) { now := int64(0); p.Spec.TerminationGracePeriodSeconds = &now }
			for i := range 2 {
				w.Create(pod(fmt.Sprintf("low-%d", i), 1, cluster.Priority("low"), quick))
			}
			w.gangNodes("low-", 2)
			w.Create(pod("equal", 1, cluster.Priority("low")))
			w.Waits("equal", "too few free GPUs (0 of 1)")
			w.Create(pod("important", 1, cluster.Priority("high"), quick))
			w.Placed("important")
			uid := string(w.Get("important").UID)
			victim := ""
			for i := range 2 {
				if name := fmt.Sprintf("low-%d", i); w.Find(name) == nil {
					victim = name
				}
			}
			w.Eventually("victim "+victim+" reads for which pod it goes", func() (bool, string) {
				seen := strings.Join(w.Events("Pod", victim), "; ")
				return strings.Contains(seen, "default/important") && !strings.Contains(seen, uid), seen
			})
			w.Eventually("events come from gpu-scheduler", func() (bool, string) {
				list, err := w.Client.EventsV1().Events("default").List(context.Background(), metav1.ListOptions{})
				if err != nil {
					return false, err.Error()
				}
				reporters := map[string]bool{}
				for _, e := range list.Items {
					if e.Regarding.Kind == "Pod" {
						reporters[e.ReportingController] = true
					}
				}
				return len(reporters) == 1 && reporters[names.SchedulerName], fmt.Sprint(sortedKeys(reporters))
			})
		})
	}
}
