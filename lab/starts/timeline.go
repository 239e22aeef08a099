package starts

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/replica"
)

// timeline is a replica of a cluster on which pods are submitted one after the other, with
// runtimes that are known beforehand: a trace that is replayed. It decides as the scheduler
// would.
type timeline struct {
	run   *replica.Run
	lasts map[types.UID]time.Duration // by pod
}

// newTimeline is a cluster of nodes without pods, at a time.
func newTimeline(at time.Time, nodes []*v1.Node) (*timeline, error) {
	s := kubeengine.NewSnapshot(at, names.SchedulerName)
	s.Nodes = nodes
	x, err := replica.NewRun(s, replica.Limits{Steps: math.MaxInt, Horizon: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	t := &timeline{run: x, lasts: map[types.UID]time.Duration{}}
	x.Lasts = func(gang engine.ID) (time.Duration, bool) {
		for _, p := range x.GangPods(gang) {
			d, ok := t.lasts[p.UID]
			return d, ok
		}
		return 0, false
	}
	return t, nil
}

// now is how far the timeline is.
func (t *timeline) now() time.Time { return t.run.Now() }

// started is when a gang got its first place.
func (t *timeline) started(gang engine.ID) (time.Time, bool) {
	at, ok := t.run.Starts[gang]
	return at, ok
}

// submit creates the pods of one gang, which runs for as long as lasts says once it starts.
func (t *timeline) submit(ctx context.Context, lasts time.Duration, pods ...*v1.Pod) (engine.ID, error) {
	for _, p := range pods {
		t.lasts[p.UID] = lasts
		if err := t.run.SetPod(p); err != nil {
			return "", err
		}
	}
	err := t.settle(ctx)
	return t.run.GangOf(pods[0]), err
}

// until lets happen what happens before a time.
func (t *timeline) until(ctx context.Context, at time.Time) error {
	for next, ok := t.run.Next(); ok && !next.After(at); next, ok = t.run.Next() {
		if _, err := t.next(ctx); err != nil {
			return err
		}
	}
	t.run.Advance(at)
	return nil
}

// next lets happen what happens next; false when nothing is expected any more.
func (t *timeline) next(ctx context.Context) (bool, error) {
	if t.run.Pass() != replica.StopDone {
		return false, nil
	}
	return true, t.settle(ctx)
}

func (t *timeline) settle(ctx context.Context) error {
	if _, err := t.run.Settle(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// forecast is when a gang that waits is expected to start, by what the scheduler would know
// now; false when no start can be told.
func (t *timeline) forecast(ctx context.Context, gang engine.ID) (time.Time, bool, error) {
	s, err := t.run.Snapshot()
	if err != nil {
		return time.Time{}, false, err
	}
	x, err := replica.NewRun(s, replica.DefaultLimits())
	if err != nil {
		return time.Time{}, false, err
	}
	if _, err := x.Forward(ctx, func() bool { _, ok := x.Starts[gang]; return ok }); err != nil {
		return time.Time{}, false, err
	}
	at, ok := x.Starts[gang]
	return at, ok, ctx.Err()
}
