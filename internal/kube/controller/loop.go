package controller

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// loop looks at objects again, one key at a time per object, until they are as they
// should be.
type loop struct {
	name  string
	queue workqueue.TypedRateLimitingInterface[string]
	// settle is how long to wait for further events about an object: a gang's pods
	// change together, and one look is enough for all.
	settle time.Duration
	// reconcile brings one object forward. It is called again after the returned time
	// (0: only on the next event), or soon after an error.
	reconcile func(ctx context.Context, key string) (time.Duration, error)
}

func newLoop(name string, settle time.Duration) *loop {
	return &loop{
		name: name, settle: settle,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name},
		),
	}
}

// look asks for an object to be looked at.
func (l *loop) look(key string) {
	if key != "" {
		l.queue.AddAfter(key, l.settle)
	}
}

// run works until the context ends.
func (l *loop) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	wg.Wait()
}

func (l *loop) next(ctx context.Context) bool {
	key, quit := l.queue.Get()
	if quit {
		return false
	}
	defer l.queue.Done(key)
	again, err := l.reconcile(ctx, key)
	switch {
	case ctx.Err() != nil:
	case apierrors.IsConflict(err): // another client wrote first; its version is on its way here
		l.queue.AddRateLimited(key)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Will try again", "loop", l.name, "object", key)
		l.queue.AddRateLimited(key)
	default:
		l.queue.Forget(key)
		if again > 0 {
			l.queue.AddAfter(key, again)
		}
	}
	return true
}
