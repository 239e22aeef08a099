package workload

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// run is what is known of how long a gang has run.
type run struct {
	start  time.Time // when its first member was bound; zero while none was
	broken bool      // a member was taken away, so its end is not the gang's own
	// key says which runs are like it, estimate how long it was expected to run when it
	// came, if that was learned: it stays, because reservations are promised by it.
	key      *arbiter.RuntimeKey
	estimate time.Duration
}

// began takes note of a member that is bound.
func (r *run) began(pod *v1.Pod, now time.Time) {
	if at := since(pod, now); r.start.IsZero() || at.Before(r.start) {
		r.start = at
	}
}

// lost takes note of a member that is gone.
func (r *run) lost(pod *v1.Pod) {
	r.broken = r.broken || pod.DeletionTimestamp != nil || pod.Spec.NodeName == ""
}

// since is when a pod was bound; now when nothing says so.
func since(pod *v1.Pod, now time.Time) time.Time {
	if at := dialect.BoundSince(pod); at != math.MaxInt64 {
		return time.Unix(at, 0)
	}
	return now
}

// shortestRun is the least that is learned from: what ends sooner has failed to start or
// was stopped at once, and would promise nodes for a time that no run keeps.
const shortestRun = 10 * time.Second

// learn takes note of how long a gang ran whose last member ended. kube-scheduler's
// informer does not tell success from failure; the mean of several runs bears that.
func (w *Gangs) learn(g *group, last *Member, now time.Time) {
	if g.run.broken || g.run.start.IsZero() {
		return
	}
	if g.run.key == nil {
		g.run.key = runKey(last)
	}
	if ran := now.Sub(g.run.start); *g.run.key != (arbiter.RuntimeKey{}) && ran >= w.timing.ShortestRun {
		w.runtimes.Observe(*g.run.key, ran)
	}
}

// estimate is how long a gang will run that does not say, by earlier ones like it; 0
// when that is not known.
func (w *Gangs) estimate(g *group, first *Member) time.Duration {
	if g.run.key == nil {
		g.run.key = runKey(first)
		if *g.run.key != (arbiter.RuntimeKey{}) {
			g.run.estimate, _ = w.runtimes.Estimate(*g.run.key)
		}
		if d, ok := w.foretold[g.id]; ok {
			g.run.estimate = d
		}
	}
	return g.run.estimate
}

// Learned says whether a gang's runtime is an estimate by earlier ones like it, and nobody
// declared it.
func (w *Gangs) Learned(id engine.ID, runtime time.Duration) bool {
	g := w.groups[id]
	if g == nil || runtime == 0 || g.run.estimate != runtime {
		return false
	}
	for _, m := range g.pods {
		if m.Runtime > 0 {
			return false
		}
	}
	return true
}

// Runtimes returns a copy of what was learned of how long gangs run.
func (w *Gangs) Runtimes() *arbiter.Runtimes { return w.runtimes.Clone() }

// RestoreRuntimes adds what another process has learned. Gangs that wait and of which
// nothing was known are described again.
func (w *Gangs) RestoreRuntimes(saved []arbiter.SavedRuntime) {
	w.runtimes.Restore(saved)
	for id, g := range w.groups { // each for itself
		if g.run.key != nil && g.run.estimate == 0 && g.run.start.IsZero() {
			g.run.key = nil
			w.touch(id)
		}
	}
}

// runKey is equal for runs that are alike: those of one namespace and user, of the same
// programs, on as many GPUs. Services have no end, and no key.
func runKey(m *Member) *arbiter.RuntimeKey {
	if owner := metav1.GetControllerOf(m.Pod); owner != nil &&
		slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}, owner.Kind) {
		return &arbiter.RuntimeKey{}
	}
	shape := []string{strconv.Itoa(m.Request.Count()), strconv.Itoa(max(1, m.Size))}
	for _, c := range m.Pod.Spec.Containers {
		shape = append(shape, c.Image)
	}
	return &arbiter.RuntimeKey{Owner: m.Pod.Namespace + "/" + m.User, Shape: strings.Join(shape, " ")}
}
