package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
)

// TestControllerKilled: the controller dies again and again, at moments of no
// choosing, and nobody can tell from the jobs: each ends as it should, restarts are
// counted once, and no pod is made twice.
func TestControllerKilled(t *testing.T) {
	w := newJobWorld(t)
	made := w.countPods()
	p := w.controller()

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
	w.apply(strings.Join(text, "---\n"))

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
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			kills++
			p = w.controller()
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
	made.mu.Lock()
	defer made.mu.Unlock()
	for slot, uids := range made.of {
		if len(uids) > 1 {
			t.Errorf("%s was made %d times", slot, len(uids))
		}
	}
	if want := jobs/2*4 + jobs/2*3*(fails+1); len(made.of) != want {
		t.Errorf("%d pods were made, want %d", len(made.of), want)
	}
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
	_, err := w.client.CoreV1().Pods(p.Namespace).UpdateStatus(context.Background(), p, metav1.UpdateOptions{})
	_ = err // a conflict: the next look sees what is there then
}

// podCount is every pod that was ever made, by name and version of its job.
type podCount struct {
	mu sync.Mutex
	of map[string]map[types.UID]bool
}

// countPods watches from now on.
func (w *world) countPods() *podCount {
	w.t.Helper()
	c := &podCount{of: map[string]map[types.UID]bool{}}
	seen, err := w.client.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(seen.Stop)
	go func() {
		for e := range seen.ResultChan() {
			p, ok := e.Object.(*v1.Pod)
			if !ok || e.Type != watch.Added {
				continue
			}
			key := p.Name + " of version " + p.Annotations[batch.JobVersion]
			c.mu.Lock()
			if c.of[key] == nil {
				c.of[key] = map[types.UID]bool{}
			}
			c.of[key][p.UID] = true
			c.mu.Unlock()
		}
	}()
	return c
}

// TestControllerElection: of two controllers one works, and the other when it dies.
// Both start where Volcano's kinds do not exist, and wait for them.
func TestControllerElection(t *testing.T) {
	w := startWorld(t, local.Options{KWOK: true}, config.CRDs(), config.RBAC(), config.ControllerRBAC())
	w.fleet("pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 8}}]")
	w.scheduler(nil)
	first := w.controller("--leader-elect=true")
	second := w.controller("--leader-elect=true")
	w.apply(string(config.VolcanoCRDs()))
	w.apply(jobManifest("one", "", task("worker", 1)))
	w.reaches("one", batch.Running)
	holder := func() string {
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(context.Background(), "gpu-controller", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	was := holder()
	if err := first.Stop(); err != nil { // lets go of the lease
		t.Fatal(err)
	}
	w.apply(jobManifest("two", "", task("worker", 1)))
	w.reaches("two", batch.Running)
	if now := holder(); now == "" || now == was {
		t.Errorf("the lease is held by %q", now)
	}
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}
