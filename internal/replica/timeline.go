package replica

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Timeline is a replica of a cluster on which pods are submitted one after the other, with
// runtimes that are known beforehand: a trace that is replayed. It decides as the scheduler
// would.
type Timeline struct {
	run   *run
	lasts map[types.UID]time.Duration // by pod
}

// NewTimeline is a cluster of nodes without pods, at a time.
func NewTimeline(at time.Time, nodes []*v1.Node) (*Timeline, error) {
	s := kubeengine.NewSnapshot(at, names.SchedulerName)
	s.Nodes = nodes
	x, err := newRun(s, Limits{Steps: math.MaxInt, Horizon: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	t := &Timeline{run: x, lasts: map[types.UID]time.Duration{}}
	x.lasts = func(gang engine.ID) (time.Duration, bool) {
		for _, p := range x.GangPods(gang) {
			d, ok := t.lasts[p.UID]
			return d, ok
		}
		return 0, false
	}
	return t, nil
}

// Now is how far the timeline is.
func (t *Timeline) Now() time.Time { return t.run.Now() }

// Started is when a gang got its first place.
func (t *Timeline) Started(gang engine.ID) (time.Time, bool) {
	at, ok := t.run.starts[gang]
	return at, ok
}

// Submit creates the pods of one gang, which runs for as long as lasts says once it starts.
func (t *Timeline) Submit(ctx context.Context, lasts time.Duration, pods ...*v1.Pod) (engine.ID, error) {
	for _, p := range pods {
		t.lasts[p.UID] = lasts
		if err := t.run.SetPod(p); err != nil {
			return "", err
		}
	}
	err := t.settle(ctx)
	return t.run.GangOf(pods[0]), err
}

// Until lets happen what happens before a time.
func (t *Timeline) Until(ctx context.Context, at time.Time) error {
	for t.run.events.Len() > 0 && !t.run.events[0].at.After(at) {
		if _, err := t.Next(ctx); err != nil {
			return err
		}
	}
	t.run.Advance(at)
	return nil
}

// Next lets happen what happens next; false when nothing is expected any more.
func (t *Timeline) Next(ctx context.Context) (bool, error) {
	if t.run.pass() != stopDone {
		return false, nil
	}
	return true, t.settle(ctx)
}

func (t *Timeline) settle(ctx context.Context) error {
	if _, err := t.run.settle(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// Forecast is when a gang that waits is expected to start, by what the scheduler would know
// now; false when no start can be told.
func (t *Timeline) Forecast(ctx context.Context, gang engine.ID) (time.Time, bool, error) {
	s, err := t.run.Snapshot()
	if err != nil {
		return time.Time{}, false, err
	}
	x, err := newRun(s, DefaultLimits())
	if err != nil {
		return time.Time{}, false, err
	}
	if _, err := x.forward(ctx, func() bool { _, ok := x.starts[gang]; return ok }); err != nil {
		return time.Time{}, false, err
	}
	at, ok := x.starts[gang]
	return at, ok, ctx.Err()
}
