// Package whatif asks a real scheduler what would become of random manifests, creates them,
// and compares: on a real API server, over the query port.
package whatif

import (
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// patience is for what takes moments, on slow machines.
const patience = 45 * time.Second

type world struct {
	*cluster.World
	pods *cluster.Follower
	api  cluster.Asker
	// changed tells that a pod has changed.
	changed chan struct{}
}

func newWorld(t *testing.T, pools string) *world {
	t.Helper()
	w := &world{World: cluster.ForTest(t, cluster.Options{
		Programs:  []string{"gpu-scheduler"},
		Manifests: cluster.Manifests(),
		Fleet:     pools,
	}), changed: make(chan struct{}, 1)}
	for name, value := range map[string]int{"low": 10, "mid": 100, "high": 1000} {
		w.AddPriorityClass(name, value)
	}
	var err error
	w.pods, err = w.Follow(t.Context(), func(_, _ *v1.Pod) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})
	w.Must(err)
	// What waits is told sooner than by default.
	w.Start(local.Component{Name: "gpu-scheduler", Config: cluster.QueueArguments("reportEvery: 1s"), Answers: true, Flags: []string{cluster.Alone}})
	w.api = w.Admin("gpu-scheduler")
	return w
}

// ask asks the scheduler for an answer that must come.
func ask[A any](w *world, method, path, body string) *A {
	w.T.Helper()
	return cluster.Decode[A](w.T, w.askText(method, path, body))
}

func (w *world) askText(method, path, body string) string {
	w.T.Helper()
	answer := w.api.Do(w.T, method, path, strings.NewReader(body))
	if answer.Status != http.StatusOK {
		w.T.Fatalf("%s %s: %d: %s", method, path, answer.Status, answer.Text)
	}
	return answer.Text
}

// until waits for something that pods' events bring about.
func (w *world) until(holds func() bool) bool {
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			return false
		case <-w.changed:
		}
	}
	return true
}

// pod is a pod as it is now, or nil.
func (w *world) pod(name string) *v1.Pod { return w.pods.Pod("default", name) }

// waits says whether a pod has been told that it waits.
func waits(p *v1.Pod) bool {
	return cluster.Scheduled(p).Status == v1.ConditionFalse && p.Spec.NodeName == ""
}
