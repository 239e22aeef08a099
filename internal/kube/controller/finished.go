package controller

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/recovery"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// PodsFinished is how pods with GPUs ended. The scheduler cannot tell: kube-scheduler
// watches no pod that has succeeded or failed.
var PodsFinished = metrictable.NewCounter("tangram_pods_finished_total", "pods", "pods",
	"Pods with GPUs that ended after they were bound, by how. evicted: by preemption, a drain or another disruption (condition DisruptionTarget). "+
		"deleted: before they succeeded or failed.",
	metrictable.By("queue", "names of Queues; other"), metrictable.By("result", "succeeded, failed, evicted, deleted")).For("003 training_job_completion_rate: succeeded / (succeeded + failed)")

// Table is the metrics of gpu-controller.
func Table() metrictable.Table {
	t := recovery.Table()
	t.Metrics = append(t.Metrics, PodsFinished)
	return t
}

// finished counts them. Values of queue are names of Queues that exist, at most
// maxFinishedQueues; all others are one.
type finished struct {
	desc   *prometheus.Desc
	queues cache.Store

	mu     sync.Mutex
	names  *measure.Names
	counts map[finishedKey]float64
}

type finishedKey struct{ queue, result string }

const maxFinishedQueues = 200

func newFinished(s *sources) (*finished, error) {
	f := &finished{
		desc:   prometheus.NewDesc(PodsFinished.Name, PodsFinished.Help, PodsFinished.LabelNames(), nil),
		queues: s.queues.GetStore(), names: measure.NewNames(maxFinishedQueues), counts: map[finishedKey]float64{},
	}
	_, err := s.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			o, n := before.(*v1.Pod), after.(*v1.Pod)
			if o.UID == n.UID && !ended(o) && ended(n) {
				f.count(n)
			}
		},
		DeleteFunc: func(obj any) {
			if p, ok := eventObject[*v1.Pod](obj); ok && !ended(p) {
				f.count(p)
			}
		},
	})
	return f, err
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// count counts a pod that ended, if it was bound and asks for GPUs.
func (f *finished) count(p *v1.Pod) {
	claims, _ := dialect.Claims(p)
	if p.Spec.NodeName == "" || !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.Vendor != "" }) {
		return
	}
	queue, _ := dialect.ChargedQueue(p)
	queue = cmp.Or(queue, arbiter.Default)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.exists(queue) {
		queue = measure.Other
	}
	f.counts[finishedKey{f.names.Admit(queue), resultOf(p)}]++
}

func resultOf(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && p.Status.Phase != v1.PodSucceeded {
			return "evicted"
		}
	}
	switch p.Status.Phase {
	case v1.PodSucceeded:
		return "succeeded"
	case v1.PodFailed:
		return "failed"
	}
	return "deleted"
}

func (f *finished) exists(queue string) bool {
	if queue == arbiter.Default {
		return true
	}
	_, there, err := f.queues.GetByKey(queue)
	return err == nil && there
}

// Describe implements prometheus.Collector.
func (f *finished) Describe(out chan<- *prometheus.Desc) { out <- f.desc }

// Collect implements prometheus.Collector. Queues that are gone are dropped.
func (f *finished) Collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names.Keep(f.exists)
	for k, n := range f.counts { // each is a series
		if k.queue != measure.Other && !f.exists(k.queue) {
			delete(f.counts, k)
			continue
		}
		out <- prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, n, k.queue, k.result)
	}
}
