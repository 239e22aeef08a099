package watch

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// How long it is waited before it is asked again whether objects are served: longer and
// longer, but not long when there is a sign that they are.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	askedPause = 200 * time.Millisecond
)

// insistent lists and watches objects that may not be served: listing goes on until they
// are, so that a CRD that is installed later is noticed.
type insistent[T metav1.Object] struct {
	cache.ListerWatcherWithContext
	of *Optional[T]
}

func (s insistent[T]) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s insistent[T]) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s insistent[T]) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		list, err := s.ListerWatcherWithContext.ListWithContext(ctx, o)
		switch {
		case err == nil:
			if s.of.absent.Swap(false) {
				s.of.all()
			}
			return list, nil
		case !s.of.refused(ctx, err):
			return nil, err
		}
		asked := time.Now()
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
			continue
		case <-s.of.again:
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(askedPause - time.Since(asked)):
		}
	}
}
