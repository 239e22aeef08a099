package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

// TestControllerKilled: the controller dies again and again, at moments of no
// choosing, and the jobs do not show it: each ends as it should, restarts are
// counted once, and no pod is made for a version that is over.
func TestControllerKilled(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t)
	past := w.watchHistory()
	p := w.Controller()

	// Half the jobs just run; in the other half the first worker fails five times.
	const jobs, fails = 12, 5
	name := func(i int) string { return fmt.Sprintf("j%d", i) }
	var text []string
	for i := range jobs {
		if i%2 == 0 {
			text = append(text, jobManifest(name(i), "plugins: {svc: [], ssh: []}", task("worker", 4, "runs: 2s")))
		} else {
			text = append(text, jobManifest(name(i), "maxRetry: 5\npolicies: [{event: PodFailed, action: RestartJob}]", task("worker", 3)))
		}
	}
	w.Apply(strings.Join(text, "---\n"))

	// Fail and end pods of the unlucky half by what their version says, whatever the
	// controller does meanwhile.
	play := func() bool {
		done := true
		for i := 1; i < jobs; i += 2 {
			phase := w.job(name(i)).Status.State.Phase
			if phase == batch.Completed || phase == batch.Failed {
				continue
			}
			done = false
			for _, pod := range w.podsOf(name(i)) {
				if pod.Status.Phase != v1.PodRunning {
					continue
				}
				version := pod.Annotations[batch.JobVersion]
				switch {
				case version == fmt.Sprint(fails):
					w.endIfThere(&pod, 0)
				case pod.Annotations[batch.TaskIndex] == "0":
					w.endIfThere(&pod, 1)
				}
			}
		}
		return done
	}
	deadline := time.Now().Add(2 * time.Minute)
	next, kills := time.Now().Add(300*time.Millisecond), 0
	for !play() {
		if time.Now().After(deadline) {
			t.Fatal("not all jobs end")
		}
		if kills < 8 && time.Now().After(next) {
			w.Must(p.Kill())
			kills++
			p = w.Controller()
			next = time.Now().Add(time.Duration(100+70*kills) * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("killed %d times", kills)
	if kills < 3 {
		t.Error("the test is too short")
	}
	for i := range jobs {
		st := w.reaches(name(i), batch.Completed).Status
		if want := int32(fails * (i % 2)); st.RetryCount != want || st.Version != want {
			t.Errorf("%s: retryCount %d, version %d, want %d", name(i), st.RetryCount, st.Version, want)
		}
	}
	past.check(t)
}

// endIfThere ends a pod unless it is gone or changed meanwhile.
func (w *world) endIfThere(p *v1.Pod, code int32) {
	p.Status.Phase = v1.PodSucceeded
	if code != 0 {
		p.Status.Phase = v1.PodFailed
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
	}}}
	_, err := w.Client.CoreV1().Pods(p.Namespace).UpdateStatus(context.Background(), p, metav1.UpdateOptions{})
	_ = err // a conflict: the next look sees what is there then
}

// history is when pods were made and when jobs got their versions, in the API server's
// own order: resource versions, which all kinds share.
//
// It does not say that a slot is filled once per version: KWOK deletes by name what it
// was asked to delete, and now and then hits the pod that has got the name since.
type history struct {
	mu    sync.Mutex
	pods  map[types.UID]made
	began map[string]map[int64]int64 // job, version -> resource version
}

// made is the birth of one pod.
type made struct {
	name, job   string
	version, at int64
}

// watchHistory watches from now on.
func (w *world) watchHistory() *history {
	w.T.Helper()
	h := &history{pods: map[types.UID]made{}, began: map[string]map[int64]int64{}}
	pods, err := w.Client.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
	w.Must(err)
	jobs, err := w.Dynamic.Resource(batch.SchemeGroupVersion.WithResource("jobs")).Watch(context.Background(), metav1.ListOptions{})
	w.Must(err)
	w.T.Cleanup(pods.Stop)
	w.T.Cleanup(jobs.Stop)
	go func() {
		for e := range pods.ResultChan() {
			if p, ok := e.Object.(*v1.Pod); ok && e.Type == watch.Added {
				h.mu.Lock()
				h.pods[p.UID] = made{p.Name, p.Labels[batch.JobNameKey], number(p.Annotations[batch.JobVersion]), number(p.ResourceVersion)}
				h.mu.Unlock()
			}
		}
	}()
	go func() {
		for e := range jobs.ResultChan() {
			j, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			version, _, _ := unstructured.NestedInt64(j.Object, "status", "version")
			h.mu.Lock()
			if h.began[j.GetName()] == nil {
				h.began[j.GetName()] = map[int64]int64{}
			}
			if _, seen := h.began[j.GetName()][version]; !seen {
				h.began[j.GetName()][version] = number(j.GetResourceVersion())
			}
			h.mu.Unlock()
		}
	}()
	return h
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// check: every pod was made while its version was the job's, neither before the
// status said so nor after it was over.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pods {
		if from, ok := h.began[p.job][p.version]; !ok || p.at < from {
			t.Errorf("%s of version %d was made before that version", p.name, p.version)
		}
		if until, over := h.began[p.job][p.version+1]; over && p.at > until {
			t.Errorf("%s of version %d was made after that version", p.name, p.version)
		}
	}
	t.Logf("%d pods were made", len(h.pods))
}

// TestControllerElection: of two controllers one works, and the other when it stops or
// is killed.
// Both start where Volcano's kinds do not exist, and wait for them.
func TestControllerElection(t *testing.T) {
	t.Parallel()
	w := startWorld(t, local.Options{KWOK: true}, config.CRDs(), config.RBAC(), config.ControllerRBAC())
	w.Fleet("pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 8}}]")
	w.Scheduler(nil)
	first := w.Controller("--leader-elect=true")
	second := w.Controller("--leader-elect=true")
	w.Apply(string(config.VolcanoCRDs()))
	w.Apply(jobManifest("one", "", task("worker", 1)))
	w.reaches("one", batch.Running)
	holder := func() string {
		lease, err := w.Client.CoordinationV1().Leases("kube-system").Get(context.Background(), "gpu-controller", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	was := holder()
	if err := first.Stop(); err != nil { // lets go of the lease
		t.Fatal(err)
	}
	w.Apply(jobManifest("two", "", task("worker", 1)))
	w.reaches("two", batch.Running)
	if now := holder(); now == "" || now == was {
		t.Errorf("the lease is held by %q", now)
	}
	// One that is killed keeps the lease until it runs out.
	third := w.Controller("--leader-elect=true")
	was = holder()
	w.Must(second.Kill())
	w.Apply(jobManifest("three", "", task("worker", 1)))
	w.reaches("three", batch.Running)
	if now := holder(); now == "" || now == was {
		t.Errorf("the lease is held by %q", now)
	}
	if err := third.Stop(); err != nil {
		t.Error(err)
	}
}
