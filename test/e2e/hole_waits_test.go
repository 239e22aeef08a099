package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/local"
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
			w.queueOf("small", "{weight: 1, capability: {nvidia.com/gpu: 1}}")
			w.create(pod("first", 1, inQueue("small")))
			w.bound("first")
			w.create(pod("second", 1, inQueue("small")))
		}, []string{"quota", "small", "1"}, nil},
		{"members", "m-0", func(w *world) {
			for i := range 2 {
				w.create(pod(fmt.Sprintf("m-%d", i), 1, gangLabels("m", 3)))
			}
		}, []string{"members", "2", "3"}, nil},
		{"no-queue", "lost", func(w *world) {
			w.queueOf("research", "{weight: 1}")
			w.create(pod("lost", 1, inQueue("resarch")))
		}, []string{"no queue", "resarch"}, []string{"waits for quota"}},
		{"ahead", "small", func(w *world) {
			// One node is busy for an hour, and both are kept for a gang of two.
			w.create(pod("runs", 8, annotated(names.AnnotationRuntime, "1h")))
			w.bound("runs")
			w.createGang("big", 2, 8)
			w.waits("big-0", "kept for it")
			w.create(pod("small", 1))
		}, []string{"big"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			knownHole(t, "H9-visible-"+tt.name)
			w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
			w.queueOf("idle", "{weight: 1}")
			w.scheduler(nil)
			tt.make(w)
			w.eventually("pod "+tt.pod+" has a condition that says why it waits", 20*time.Second, func() (bool, string) {
				c := scheduled(w.get(tt.pod))
				seen := fmt.Sprintf("status %q reason %q message %q; events %q", c.Status, c.Reason, c.Message, w.notesOn("Pod", tt.pod))
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
			knownHole(t, "H9-events-"+name)
			w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]`)
			if queue {
				w.queueOf("idle", "{weight: 1}")
			}
			w.priorityClass("low", 10, "")
			w.priorityClass("high", 1000, "")
			w.scheduler(nil)
			quick := func(p *v1.Pod) { now := int64(0); p.Spec.TerminationGracePeriodSeconds = &now }
			for i := range 2 {
				w.create(pod(fmt.Sprintf("low-%d", i), 1, ofPriority("low"), quick))
			}
			w.gangNodes("low-", 2, 20*time.Second)
			w.create(pod("equal", 1, ofPriority("low")))
			w.waits("equal", "too few free GPUs (0 of 1)")
			w.create(pod("important", 1, ofPriority("high"), quick))
			w.bound("important")
			uid := string(w.get("important").UID)
			victim := ""
			for i := range 2 {
				if name := fmt.Sprintf("low-%d", i); w.find("default", name) == nil {
					victim = name
				}
			}
			w.eventually("victim "+victim+" reads for whom it goes", 15*time.Second, func() (bool, string) {
				seen := strings.Join(w.notesOn("Pod", victim), "; ")
				return strings.Contains(seen, "default/important") && !strings.Contains(seen, uid), seen
			})
			w.eventually("events come from gpu-scheduler", 15*time.Second, func() (bool, string) {
				list, err := w.client.EventsV1().Events("default").List(context.Background(), metav1.ListOptions{})
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
