package metrics

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/metrictable"
)

// Buckets of durations: 1 ms to 1 h for pods, 0.1 ms to 1 s for the lock.
var (
	podBuckets   = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	waitBuckets  = []float64{.01, .1, 1, 10, 30, 60, 300, 1800, 3600, 4 * 3600, 24 * 3600}
	lockBuckets  = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1}
	errorBuckets = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
)

// Metrics that count what happens. Until Register they count nothing.
var (
	duration    = histogram(SchedulingDuration, podBuckets)
	attempts    = counter(SchedulingAttempts)
	retries     = counter(SchedulingRetries)
	slow        = counter(SchedulingSlow)
	conflicts   = counter(Conflicts)
	vetoes      = counter(Vetoes)
	lock        = histogram(LockSeconds, lockBuckets)
	checks      = counter(CheckFailures)
	queueWait   = histogram(QueueWait, waitBuckets)
	preemptions = counter(Preemptions)
	lostHours   = counter(LostHours)
	startError  = histogram(ExpectedStartError, errorBuckets)
	folded      = counter(Folded)
)

func counter(m metrictable.Metric) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Name: m.Name, Help: m.Help, StabilityLevel: metrics.ALPHA}, m.LabelNames())
}

func histogram(m metrictable.Metric, buckets []float64) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, m.LabelNames())
}

var registerOnce sync.Once

// Register makes all metrics appear at the scheduler's /metrics. The state that gauges
// show comes from Show.
func Register() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(duration, attempts, retries, slow, conflicts, vetoes, lock, checks, queueWait, preemptions, lostHours, startError, folded)
		legacyregistry.CustomMustRegister(&collector{})
		zero()
	})
}

// zero makes counters appear before the first time: a rate needs a value to rise from.
func zero() {
	retries.WithLabelValues().Add(0)
	for _, at := range slowThresholds {
		slow.WithLabelValues(at.label).Add(0)
	}
	for _, kind := range []string{ConflictRecord, ConflictPlace, ConflictBinding, ConflictLease} {
		conflicts.WithLabelValues(kind).Add(0)
	}
}

// LockHeld tells for how long the engine's lock was held, and what for.
func LockHeld(what string, d time.Duration) { lock.WithLabelValues(what).Observe(d.Seconds()) }

// CheckFailed counts a self-check that found a difference: "full" or "periodic".
func CheckFailed(check string) { checks.WithLabelValues(check).Inc() }

// Kinds of conflicts.
const (
	ConflictRecord  = "record"
	ConflictPlace   = "place"
	ConflictBinding = "binding"
	ConflictLease   = "lease"
)

// Conflict counts a conflict.
func Conflict(kind string) { conflicts.WithLabelValues(kind).Inc() }

// Vetoed counts a planned node that a filter plugin refused.
func Vetoed(plugin string) { vetoes.WithLabelValues(plugins.admit(plugin)).Inc() }

// Unschedulable counts pods that have begun to wait for a reason.
func Unschedulable(reason string, pods int) {
	if pods > 0 {
		attempts.WithLabelValues("unschedulable", reason).Add(float64(pods))
	}
}

// Failures of pods that had a place.
const (
	FailedBind  = "Bind"  // the Binding could not be written
	FailedLease = "Lease" // another replica may lead
	FailedCycle = "Cycle" // the scheduling cycle failed
	FailedPlace = "Place" // the place was taken back
)

// Failed counts a pod that had a place and was not bound.
func Failed(reason string) { attempts.WithLabelValues("error", reason).Inc() }

// Retried counts releases that were taken back.
func Retried(pods int) {
	if pods > 0 {
		retries.WithLabelValues().Add(float64(pods))
	}
}

// Causes of preemption.
const (
	CausePriority = "priority"
	CauseReclaim  = "reclaim"
)

// Preempted counts a pod of a queue that was evicted for another pod, and the GPU hours it
// had used.
func Preempted(queue, cause string, gpuHours float64) {
	queue = queueNames.admit(queue)
	preemptions.WithLabelValues(queue, cause).Inc()
	lostHours.WithLabelValues(queue).Add(gpuHours)
}

// Started tells when a gang with a reservation started, and when it was promised to.
func Started(actual, promised time.Time) {
	late, direction := actual.Sub(promised), "late"
	if late < 0 {
		late, direction = -late, "early"
	}
	startError.WithLabelValues(direction).Observe(late.Seconds())
}

// Timeline is when a pod passed the stages of being scheduled.
type Timeline struct {
	Since              time.Time // when it could first be scheduled
	PlanBegan, Planned time.Time // the step that placed it
	// Reserved is when its devices were confirmed in its scheduling cycle, BindBegan when
	// nothing but its Binding was left, Bound when that was written.
	Reserved, BindBegan, Bound time.Time
}

// slowThresholds are the decisions' times above which they count as slow.
var slowThresholds = []struct {
	over  time.Duration
	label string
}{{100 * time.Millisecond, "100ms"}, {200 * time.Millisecond, "200ms"}}

// slowLogs bounds how often slow decisions are logged.
var slowLogs = newSlowLogs()

func newSlowLogs() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiter(10.0/60, 10)
}

// Scheduled counts a pod that was bound, and logs it when its decision was slow.
func Scheduled(logger klog.Logger, pod klog.ObjectRef, queue string, t Timeline) {
	attempts.WithLabelValues("scheduled", "").Inc()
	if t.PlanBegan.IsZero() || t.Reserved.IsZero() {
		return // a cycle that does not go through all stages
	}
	observe := func(phase string, from, to time.Time) time.Duration {
		d := max(0, to.Sub(from))
		duration.WithLabelValues(phase).Observe(d.Seconds())
		return d
	}
	waited := observe("queue", t.Since, t.PlanBegan)
	plan := observe("plan", t.PlanBegan, t.Planned)
	reserve := observe("reserve", t.Planned, t.Reserved)
	permit := observe("permit", t.Reserved, t.BindBegan)
	bind := observe("bind", t.BindBegan, t.Bound)
	decision := observe("decision", t.PlanBegan, t.Bound)
	total := observe("total", t.Since, t.Bound)
	queueWait.WithLabelValues(queueNames.admit(queue)).Observe(total.Seconds())
	for _, at := range slowThresholds {
		if decision > at.over {
			slow.WithLabelValues(at.label).Inc()
		}
	}
	if decision > slowThresholds[0].over && slowLogs.TryAccept() {
		logger.Info("Slow scheduling decision", "pod", pod, "queue", queue, "decision", decision, "plan", plan, "reserve", reserve,
			"permit", permit, "bind", bind, "waitedBefore", waited)
	}
}
