package metrics

import (
	"fmt"
	"regexp"
	"time"
)

// Targets are what an operator wants of the scheduler and of what runs on it.
type Targets struct {
	Target, Alert Target // what should hold, and what must
	// InferenceMetric names the histogram, in seconds, in which serving programs count
	// how long requests take: the scheduler does not see them. Empty: none.
	InferenceMetric string
}

// Target is one level of targets.
type Target struct {
	// Completion is the part of pods with GPUs that succeed, of those that succeed or
	// fail; 0..1.
	Completion float64
	// Inference is the 95th percentile of how long an inference request takes,
	// Allocation of how long a pod waits until it is bound.
	Inference, Allocation time.Duration
}

// DefaultTargets are requirement document 003's.
func DefaultTargets() Targets {
	return Targets{
		Target: Target{Completion: .95, Inference: 100 * time.Millisecond, Allocation: 30 * time.Second},
		Alert:  Target{Completion: .90, Inference: 150 * time.Millisecond, Allocation: 60 * time.Second},
	}
}

// metricName is what Prometheus accepts.
var metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// Validate names the field that is wrong.
func (t *Targets) Validate() error {
	for _, l := range []struct {
		name string
		Target
	}{{"target", t.Target}, {"alert", t.Alert}} {
		switch {
		case !(l.Completion >= 0 && l.Completion <= 1):
			return fmt.Errorf("completion.%s: must be 0 to 100 percent", l.name)
		case l.Inference <= 0:
			return fmt.Errorf("inferenceLatency.%s: must be more than 0", l.name)
		case l.Allocation <= 0:
			return fmt.Errorf("allocation.%s: must be more than 0", l.name)
		}
	}
	switch {
	case t.Alert.Completion > t.Target.Completion:
		return fmt.Errorf("completion.alert: is above the target")
	case t.Alert.Inference < t.Target.Inference:
		return fmt.Errorf("inferenceLatency.alert: is below the target")
	case t.Alert.Allocation < t.Target.Allocation:
		return fmt.Errorf("allocation.alert: is below the target")
	case t.InferenceMetric != "" && !metricName.MatchString(t.InferenceMetric):
		return fmt.Errorf("inferenceLatency.metric: %q is not the name of a metric", t.InferenceMetric)
	}
	return nil
}
