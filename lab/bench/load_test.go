package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/names"
)

func TestParallelCallsEachOnce(t *testing.T) {
	var mu sync.Mutex
	calls := map[int]int{}
	err := parallel(t.Context(), 4, 100, func(_ context.Context, i int) error {
		mu.Lock()
		defer mu.Unlock()
		calls[i]++
		return nil
	})
	if err != nil || len(calls) != 100 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	for i, n := range calls {
		if n != 1 {
			t.Errorf("call %d was made %d times", i, n)
		}
	}
}

func TestParallelEndsOnFirstError(t *testing.T) {
	bad := errors.New("bad")
	err := parallel(t.Context(), 4, 1_000_000, func(ctx context.Context, i int) error {
		if i == 10 {
			return bad
		}
		if i < 10 {
			return nil
		}
		<-ctx.Done() // would hang if the error did not cancel the others
		return ctx.Err()
	})
	if !errors.Is(err, bad) {
		t.Errorf("got %v, want the first error", err)
	}
}

// podSink is an API server that accepts pods and remembers them.
type podSink struct {
	mu   sync.Mutex
	pods []*corev1.Pod
	at   []time.Time
}

func (s *podSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != protobuf {
		http.Error(w, "want protobuf", http.StatusBadRequest)
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !ok || r.URL.Path != "/api/v1/namespaces/bench/pods" {
		http.Error(w, "want a pod", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, pod)
	s.at = append(s.at, time.Now())
	w.Header().Set("Content-Type", protobuf)
	_, _ = io.Copy(w, bytes.NewReader(body))
}

func TestLoadKeepsTheRate(t *testing.T) {
	sink := &podSink{}
	server := httptest.NewServer(sink)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	l := load{client: client, schedulerName: "some-scheduler", gpus: 2}
	c := newCohort("pod", 20)
	bodies, err := l.prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := l.create(t.Context(), c, bodies, 100); err != nil {
		t.Fatal(err)
	}
	if len(sink.pods) != 20 || c.createdCount.Load() != 20 {
		t.Fatalf("%d pods created, %d counted", len(sink.pods), c.createdCount.Load())
	}
	// Pods may be late on a busy machine, but never early: the last is due after
	// 19 intervals of 10 ms.
	if early := sink.at[19].Sub(begun); early < 190*time.Millisecond {
		t.Errorf("the last pod came after %v", early)
	}
	pod := sink.pods[0]
	gpus := pod.Spec.Containers[0].Resources.Limits[names.ResourceNVIDIA]
	if pod.Spec.SchedulerName != "some-scheduler" || gpus.Value() != 2 || podGPUs(pod) != 2 {
		t.Errorf("got pod %+v", pod.Spec)
	}
	if _, ok := c.indexOf(pod.Name); !ok {
		t.Errorf("pod name %q", pod.Name)
	}
}

func TestLoadStopsAtARefusal(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	l := load{client: client}
	c := newCohort("pod", 100_000)
	if err := l.create(t.Context(), c, make([][]byte, c.size()), 0); err == nil {
		t.Error("a refused pod was no error")
	}
	if n := c.createdCount.Load(); n > 1000 {
		t.Errorf("%d pods were tried", n)
	}
}
