package bench

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// watchBound marks pods of the cohorts as the API shows them bound, until ctx
// ends. It starts from the state before any pod, so it misses none; a channel
// error says that it ended early and its numbers are void.
//
// It is one protobuf watch that asks only for pods with a node: one event per pod
// to decode. An informer would decode every pod twice and keep it, in a process
// that shares its CPUs with what it measures.
func watchBound(ctx context.Context, client kubernetes.Interface, cohorts ...*cohort) (<-chan error, error) {
	pods := client.CoreV1().Pods(namespace)
	bound := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	list, err := pods.List(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if n := len(list.Items); n > 0 {
		return nil, fmt.Errorf("watch pods: %d pods in a namespace that must be empty", n)
	}
	// The retry watcher resumes a dropped watch where it ended.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound.FieldSelector
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	lost := make(chan error, 1)
	go func() {
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				lost <- fmt.Errorf("watch pods: unexpected %s event: %v", event.Type, event.Object)
				return
			}
			if event.Type == watch.Deleted {
				continue
			}
			for _, c := range cohorts {
				if i, ok := c.indexOf(pod.Name); ok {
					c.markBound(i)
				}
			}
		}
		if ctx.Err() == nil {
			lost <- errors.New("watch pods: the watch ended")
		}
	}()
	return lost, nil
}
