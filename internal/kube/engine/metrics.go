package engine

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// lockSeconds is how long the engine's lock is held, by what for.
var lockSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace: "tangram", Subsystem: "engine", Name: "lock_seconds",
	Help:           "Time for which the engine's lock was held, by the question or step it was held for.",
	Buckets:        []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1},
	StabilityLevel: metrics.ALPHA,
}, []string{"for"})

// checkFailures counts self-checks that found a difference.
var checkFailures = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "tangram", Subsystem: "engine", Name: "check_failures_total",
	Help:           "Self-checks that found the engine's state to differ from the API's, by what differs.",
	StabilityLevel: metrics.ALPHA,
}, []string{"check"})

var registerOnce sync.Once

// RegisterMetrics makes the engine's metrics appear at the scheduler's /metrics.
func RegisterMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(lockSeconds, checkFailures) })
}

func observeLock(what string, d time.Duration) {
	lockSeconds.WithLabelValues(what).Observe(d.Seconds())
}
