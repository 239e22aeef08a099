package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tangram-dev/tangram/api/names"
)

// namespace holds every pod of the benchmark.
const namespace = "bench"

// creators is how many create calls are concurrent. Enough to keep two CPUs busy, and
// few enough that creating does not starve binding: the API server serves all clients
// equally, and a wider client would send more requests.
const creators = 16

// protobuf is what real components speak; JSON would measure encoding/json.
const protobuf = runtime.ContentTypeProtobuf

// newPod is one unit of load: a plain pod as a user would write it, its limits
// equal to its requests.
func newPod(name, schedulerName string, gpus int) *corev1.Pod {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
		names.ResourceNVIDIA:  *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	noToken := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			// Without a token, admission adds no volume: the pod stays as written.
			AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{
				Name:      "main",
				Image:     "pause",
				Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			}},
		},
	}
}

// load creates pods for one contender.
type load struct {
	client        kubernetes.Interface
	schedulerName string
	gpus          int
	// claims: pods ask through a claim each.
	claims bool
}

// prepare encodes the pods of a cohort ahead of time, so that the measured part
// of the client is only what the API needs, and makes their claims.
func (l *load) prepare(ctx context.Context, c *cohort) ([][]byte, error) {
	if l.claims {
		if err := l.createClaims(ctx, c); err != nil {
			return nil, err
		}
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	if !ok {
		return nil, fmt.Errorf("encode pods: no serializer for %s", protobuf)
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	bodies := make([][]byte, c.size())
	for i := range bodies {
		pod := newPod(c.podName(i), l.schedulerName, l.gpus)
		pod.Labels = c.gangLabels(i)
		if l.claims {
			byClaim(pod)
		}
		body, err := runtime.Encode(encoder, pod)
		if err != nil {
			return nil, fmt.Errorf("encode pods: %w", err)
		}
		bodies[i] = body
	}
	return bodies, nil
}

// create creates a prepared cohort and returns once the last call has ended. With a
// rate, pod i is due at i/rate seconds, the pods of a gang with the first of them, as a
// controller creates them; the creators take turns, so a slow call delays no other pod
// until all of them are in one. The client does not decode the responses: the watch
// reports the results.
func (l *load) create(ctx context.Context, c *cohort, bodies [][]byte, rate float64) error {
	start := time.Now()
	return parallel(ctx, creators, len(bodies), func(ctx context.Context, i int) error {
		if rate > 0 {
			due := start.Add(time.Duration(float64(i-i%c.burst) / rate * float64(time.Second)))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
		}
		c.markCreated(i)
		err := l.client.CoreV1().RESTClient().Post().
			Namespace(namespace).Resource("pods").
			SetHeader("Content-Type", protobuf).
			Body(bodies[i]).
			Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("create pod %s: %w", c.podName(i), err)
		}
		return nil
	})
}

// remove deletes a cohort's pods at once, and with that from the contender's
// books. There is no kubelet that would have to stop them.
func (l *load) remove(ctx context.Context, c *cohort) error {
	now := int64(0)
	err := parallel(ctx, creators, c.size(), func(ctx context.Context, i int) error {
		err := l.client.CoreV1().Pods(namespace).Delete(ctx, c.podName(i), metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s: %w", c.podName(i), err)
		}
		return nil
	})
	if err == nil && l.claims {
		err = l.removeClaims(ctx, c)
	}
	return err
}

// parallel calls do for 0 to count-1, in order, in that many workers. The first
// error ends the others and is returned.
func parallel(ctx context.Context, workers, count int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, count) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
