package controller

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// loop reconciles objects, at most one reconcile per key at a time, with retries.
type loop struct {
	name  string
	queue workqueue.TypedRateLimitingInterface[string]
	// settle is how long to collect further events about an object: a gang's pods change
	// together, and one reconcile is enough for all.
	settle time.Duration
	// reconcile reconciles one object. It is called again after the returned time (0:
	// only on the next event), or with back-off after an error.
	reconcile func(ctx context.Context, key string) (time.Duration, error)
}

func newLoop(name string, settle time.Duration, t Timing) *loop {
	return &loop{
		name: name, settle: settle,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](t.RetryInitial, t.RetryMax),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name},
		),
	}
}

func (l *loop) enqueue(key string) {
	if key != "" {
		l.queue.AddAfter(key, l.settle)
	}
}

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
	case apierrors.IsConflict(err): // another client wrote first; the informer will deliver its version
		l.queue.AddRateLimited(key)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Reconcile failed, will be retried", "loop", l.name, "object", key)
		l.queue.AddRateLimited(key)
	default:
		l.queue.Forget(key)
		if again > 0 {
			l.queue.AddAfter(key, again)
		}
	}
	return true
}
