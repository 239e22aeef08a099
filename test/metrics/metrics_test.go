package metrics

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
)

const queues = `
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: research}, spec: {capability: {nvidia.com/gpu: 4}, guarantee: {resource: {nvidia.com/gpu: 2}}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: prod}, spec: {weight: 3}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
`

const nodes = `
pools:
- {name: a, count: 2, gpu: {model: A100-80GB, count: 4}}
- {name: t, count: 1, gpu: {model: T4, count: 2}}
`

// configuration with metrics' arguments.
func configuration(metrics string) string {
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gpu-scheduler, resourceNamespace: kube-system}
clientConnection: {qps: 5000, burst: 5000}
profiles:
- schedulerName: gpu-scheduler
  plugins: {filter: {enabled: [{name: GPUFilter}]}, score: {enabled: [{name: GPUScore}]}}
  pluginConfig:
  - name: GPUQueue
    args:
      reportEvery: 1s
      metrics: %s
`, metrics)
}

// TestMetrics tells the story of a day in a small cluster, and reads it from metrics:
// a single pod, a gang, a queue at its limit, a preemption, hours and what they cost.
func TestMetrics(t *testing.T) {
	t.Parallel()
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("currency: CNY\nperGPUHour: {A100: 65}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := configuration(fmt.Sprintf(`{priceTable: %q, targets: {allocation: {target: 20s, alert: 40s}, inferenceLatency: {target: 100ms, alert: 150ms, metric: serving_seconds}}}`, prices))
	w := newWorld(t, nodes, settings, []byte(queues), []byte(metricsRole), readers)

	// Only a token with the right reads them.
	reader, stranger := w.Token("default", "prometheus"), w.Token("default", "stranger")
	for _, c := range []struct {
		name, token string
		want        int
	}{
		{"no token", "", http.StatusForbidden}, {"a wrong token", "abc", http.StatusUnauthorized},
		{"a token without the right", stranger, http.StatusForbidden}, {"a token with it", reader, http.StatusOK},
	} {
		if a := w.asker.Bearer(c.token).Do(t, http.MethodGet, "/metrics", nil); a.Status != c.want {
			t.Errorf("%s: status %d, want %d: %.200s", c.name, a.Status, c.want, a.Text)
		} else if a.Status != http.StatusOK && strings.Contains(a.Text, "tangram_") {
			t.Errorf("%s: metrics in the answer", c.name)
		}
	}
	plain, err := http.Get(strings.Replace(w.asker.Base, "https", "http", 1) + "/metrics")
	if err == nil {
		defer plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("metrics without TLS")
		}
	}

	// An empty cluster.
	w.expect(reader, cluster.Samples{
		`tangram_leader`: 1, `tangram_scheduler_available_ratio`: 1, `tangram_reservations`: 0, `tangram_gpu_fragmentation_ratio`: 0,
		`tangram_gpus{model="a100-80gb-sxm4",state="free",vendor="nvidia"}`: 8, `tangram_gpus{model="t4",state="free",vendor="nvidia"}`: 2,
		`tangram_queue_gpus{kind="capability",queue="research"}`: 4, `tangram_queue_gpus{kind="guarantee",queue="research"}`: 2,
		`tangram_target_allocation_seconds{level="alert"}`: 40, `tangram_target_inference_latency_seconds{level="target",metric="serving_seconds"}`: 0.1,
		`tangram_target_completion_ratio{level="target"}`: 0.95, `tangram_gpu_hour_price{currency="CNY",model="a100"}`: 65,
	})

	// A single pod on a T4, and a gang of four that fills its queue.
	began := time.Now()
	w.Create(cluster.Pod("single", 1, cluster.Model("T4")))
	for i := range 4 {
		w.Create(cluster.Pod(fmt.Sprint("gang-", i), 1, cluster.Queue("research"), cluster.Gang("gang", 4), cluster.Annotate(names.AnnotationUser, "ada"), cluster.Model("A100")))
	}
	w.expect(reader, cluster.Samples{
		`tangram_scheduling_attempts_total{reason="",result="scheduled"}`:        5,
		`tangram_scheduling_duration_seconds_count{phase="queue"}`:               5,
		`tangram_scheduling_duration_seconds_count{phase="decision"}`:            5,
		`tangram_scheduling_duration_seconds_bucket{phase="total",le="+Inf"}`:    5,
		`tangram_queue_wait_seconds_count{queue="research"}`:                     4,
		`tangram_queue_wait_seconds_count{queue="default"}`:                      1,
		`tangram_queue_gpus{kind="used",queue="research"}`:                       4,
		`tangram_gpus{model="a100-80gb-sxm4",state="allocated",vendor="nvidia"}`: 4,
		`tangram_gpus{model="a100-80gb-sxm4",state="free",vendor="nvidia"}`:      4,
		`tangram_gpus{model="t4",state="allocated",vendor="nvidia"}`:             1,
	})
	bound := time.Now()

	// A fifth pod waits for its queue's limit, a sixth for a queue that does not exist.
	w.Create(cluster.Pod("fifth", 1, cluster.Queue("research")))
	w.Create(cluster.Pod("sixth", 1, cluster.Queue("nowhere")))
	w.expect(reader, cluster.Samples{
		`tangram_pending_pods{queue="research"}`: 1, `tangram_pending_gangs{queue="research"}`: 1, `tangram_pending_pods{queue="other"}`: 1,
		`tangram_scheduling_attempts_total{reason="OverCapability",result="unschedulable"}`: 1,
		`tangram_scheduling_attempts_total{reason="NoQueue",result="unschedulable"}`:        1,
	})

	// Four pods of low priority fill the rest; one of high priority takes the place of one.
	for i := range 4 {
		w.Create(cluster.Pod(fmt.Sprint("low-", i), 1, cluster.Queue("prod"), cluster.Priority("low"), cluster.Model("A100")))
	}
	w.expect(reader, cluster.Samples{`tangram_gpus{model="a100-80gb-sxm4",state="allocated",vendor="nvidia"}`: 8, `tangram_gpus{model="a100-80gb-sxm4",state="free",vendor="nvidia"}`: 0})
	w.Create(cluster.Pod("urgent", 1, cluster.Queue("prod"), cluster.Priority("high"), cluster.Model("A100")))
	got := w.expect(reader, cluster.Samples{
		`tangram_preemptions_total{cause="priority",queue="prod"}`:        1,
		`tangram_scheduling_attempts_total{reason="",result="scheduled"}`: 10,
		`tangram_queue_gpus{kind="used",queue="prod"}`:                    4,
		`tangram_conflicts_total{kind="record"}`:                          0,
		`tangram_engine_check_failures_total{check="full"}`:               0,
	})
	if lost := got[`tangram_lost_gpu_hours_total{queue="prod"}`]; lost <= 0 || lost > time.Since(began).Hours() {
		t.Errorf("%g GPU hours lost", lost)
	}

	// A pod that succeeds holds nothing any more.
	w.Finish("single")
	got = w.expect(reader, cluster.Samples{`tangram_gpus{model="t4",state="free",vendor="nvidia"}`: 2})

	// Hours and cost: four A100s since they were bound, one T4 without a price.
	key := `{model="a100-80gb-sxm4",namespace="default",queue="research",user="ada"}`
	before, most := time.Since(bound), time.Since(began)+3*time.Second
	hours, cost := got["tangram_gpu_hours_total"+key], got["tangram_cost_total"+key]
	if least := before - 3*time.Second; hours < 4*least.Hours() || hours > 4*most.Hours() {
		t.Errorf("%g GPU hours, want %g to %g", hours, 4*least.Hours(), 4*most.Hours())
	}
	if diff := cost - 65*hours; diff > 1e-4 || diff < -1e-4 {
		t.Errorf("%g GPU hours cost %g, want %g", hours, cost, 65*hours)
	}
	t4 := got[`tangram_gpu_hours_total{model="t4",namespace="default",queue="default",user=""}`]
	if unpriced := got[`tangram_unpriced_gpu_hours_total{model="t4"}`]; unpriced <= 0 || unpriced != t4 {
		t.Errorf("%g unpriced hours of %g", unpriced, t4)
	}

	// The lock was held for scrapes, shortly.
	if n := got[`tangram_engine_lock_seconds_count{for="metrics"}`]; n < 1 {
		t.Errorf("%g scrapes counted", n)
	}

	// A replica that follows shows the same fleet, and counts nothing: sums are right.
	leader := w.asker
	w.scheduler(settings)
	follower := w.expect(reader, cluster.Samples{
		`tangram_leader`: 0, `tangram_scheduler_available_ratio`: 1, `tangram_gpus{model="a100-80gb-sxm4",state="allocated",vendor="nvidia"}`: 8,
		`tangram_queue_gpus{kind="used",queue="prod"}`: 4,
	})
	for _, name := range []string{"tangram_gpu_hours_total", "tangram_cost_total", "tangram_preemptions_total", "tangram_scheduling_attempts_total"} {
		if s := follower.Of(name); s != "" {
			t.Errorf("a follower counts: %s", s)
		}
	}
	w.asker = leader

	// Series of a queue end with it.
	w.Remove(cluster.Queues, "prod")
	w.Eventually("the series of a queue that is gone end", func() (bool, string) {
		rest := w.scrape(reader)
		s := rest.Of("tangram_queue_wait_seconds_count") + rest.Of("tangram_queue_gpus") + rest.Of("tangram_preemptions_total")
		return !strings.Contains(s, `queue="prod"`), s
	})
}
