package scenario

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Engine is a cluster with Tangram in it. A story writes objects as people,
// kubelets and agents would, and reads the answers from the objects. One
// goroutine at a time uses an engine.
type Engine interface {
	// Name is what a file's "# engines:" line calls it.
	Name() string
	// Reset leaves an empty cluster with a scheduler that has seen it is empty.
	Reset(ctx context.Context) error
	// Apply creates objects, or replaces those of the same name, status included:
	// Nodes, GPUNodes, NodeResourceTopologies, Pods, PriorityClasses, Namespaces,
	// PodDisruptionBudgets, Queues, PodGroups. A pod with a deletion timestamp is asked
	// to end, and stays.
	Apply(ctx context.Context, objects ...metav1.Object) error
	// Delete removes objects at once.
	Delete(ctx context.Context, objects ...metav1.Object) error
	// Settle returns once the scheduler knows of all that was applied and deleted.
	// Whether it has also acted on it only the objects can tell.
	Settle(ctx context.Context) error
	// Ask creates a pod that cannot be placed, looks until done says so of the reason it
	// is given, and deletes it.
	Ask(ctx context.Context, question *v1.Pod, done func(reason string) bool) error
	// Observe returns the objects as they are now; they are the caller's.
	Observe(ctx context.Context) (*State, error)
	// Restart ends the scheduler without warning and starts a new one on the same
	// objects.
	Restart(ctx context.Context) error
	// Now is the time of the cluster's clock.
	Now() time.Time
	// Tick lets time pass.
	Tick(ctx context.Context, d time.Duration) error
	// Patience is how long the scheduler may take to act; 0 when it has acted by
	// the time Apply returns. It only matters for stories that fail.
	Patience() time.Duration
}

// sleep lets time pass for engines that have no clock of their own.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pollInterval is how often objects are looked at while an answer is awaited.
const pollInterval = 5 * time.Millisecond

// quietTime is how long nothing may change before -rewrite takes an answer for
// the last word: then no expectation says when to stop waiting.
const quietTime = time.Second

// await looks at the cluster until done says so or the engine's patience is
// over, and returns the last look.
func await(ctx context.Context, e Engine, done func(*State) bool) (*State, error) {
	deadline := time.Now().Add(e.Patience())
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		state, err := e.Observe(ctx)
		if err != nil || done(state) || time.Now().After(deadline) {
			return state, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
