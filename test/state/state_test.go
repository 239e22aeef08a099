package state

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/state"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// saved waits until the scheduler has written a state that has what is asked for.
func (w *world) saved(what string, has func(*state.State) bool) *state.State {
	w.T.Helper()
	var out *state.State
	w.Eventually("the state has "+what, func() (bool, string) {
		text := w.state()
		s, err := state.Decode([]byte(text))
		if err != nil {
			return false, err.Error()
		}
		out = s
		return has(s), text
	})
	return out
}

// TestStateOnAPIServer: a scheduler with no more than its own rights keeps what it has
// learned; an object that is garbage, hostile or from the future is ignored with one line,
// delays nothing and is written over; a missing one is complained of once. A standby takes
// over what the leader that was killed has learned.
func TestStateOnAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `[{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	configuration := cluster.QueueArguments("state: {every: 1s}")

	t.Run("rights", func(t *testing.T) {
		w := w.In(t)
		may := func(verb, name string) bool {
			r, err := w.Client.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               cluster.SchedulerUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: verb, Resource: "configmaps", Name: name},
			}}, metav1.CreateOptions{})
			w.Must(err)
			return r.Status.Allowed
		}
		for _, verb := range []string{"get", "update"} {
			if !may(verb, names.StateName) {
				t.Errorf("it may not %s its state", verb)
			}
			if verb == "update" && may(verb, "other") {
				t.Errorf("it may %s other ConfigMaps", verb)
			}
		}
		for _, verb := range []string{"create", "delete", "patch", "list", "watch", "deletecollection"} {
			if may(verb, names.StateName) {
				t.Errorf("it may %s", verb)
			}
		}
	})

	hostile := map[string]string{
		"garbage":   "hello",
		"newer":     `{"version":99}`,
		"NaN":       `{"version":1,"queues":[{"queue":"default","parent":"root","owed":{"gpu/nvidia":NaN}}]}`,
		"1e300":     `{"version":1,"queues":[{"queue":"default","parent":"root","owed":{"gpu/nvidia":1e300}}]}`,
		"negative":  `{"version":1,"mix":{"arrivals":-5}}`,
		"many":      `{"version":1,"queues":[` + strings.Repeat(`{"queue":"q"},`, 60_000) + `{"queue":"q"}]}`,
		"tomorrow":  `{"version":1,"at":4000000000000000000}`,
		"long ago":  `{"version":1,"at":1,"elapsed":1,"queues":[{"queue":"default","parent":"root","owed":{"gpu/nvidia":1152921504606846976},"part":{"gpu/nvidia":1},"held":{"gpu/nvidia":1}}]}`,
		"no object": "",
	}
	for name, text := range hostile {
		w.setState(text)
		p := w.Scheduler(configuration)
		pod := pod("pod-"+strings.ReplaceAll(strings.ToLower(name), " ", "-"), "", 1)
		pod.Labels = nil
		start := time.Now()
		w.Create(pod)
		w.Bound(pod.Name)
		t.Logf("%s: a pod was bound after %s", name, time.Since(start).Round(time.Millisecond))
		ignored, want := w.Log(p.Process, "tate ignored"), 1
		if name == "long ago" || name == "no object" { // valid, or nothing to read
			want = 0
		}
		if len(ignored) != want {
			t.Errorf("%s: logged %q", name, ignored)
		}
		w.saved("the request", func(s *state.State) bool { return s.At > 1 && s.Learned.Mix.Arrivals > 0 })
		w.Must(p.Kill())
	}
	if size := len(w.state()); size > 256<<10 {
		t.Errorf("the state has %d bytes", size)
	}

	// Of a missing object the log says once what to do, and scheduling goes on.
	w.Within("kube-system").Remove(cluster.ConfigMaps, names.StateName)
	p := w.Scheduler(configuration)
	w.Eventually("the log says what to do", func() (bool, string) {
		lines := w.Log(p.Process, "kubectl -n kube-system create configmap tangram-state")
		return len(lines) == 1, strings.Join(lines, "\n")
	})
	w.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: tangram-state, namespace: kube-system}}")
	before := w.saved("the requests", func(s *state.State) bool { return s.Learned.Mix.Arrivals >= int64(len(hostile)) })
	if lines := w.Log(p.Process, "not saved"); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
	// One that is told to end saves what it learned since the last time.
	w.Must(p.Stop())

	// A standby takes over; pods that were counted are not counted again.
	lead := cluster.Elect(3 * time.Second)
	leader := w.Scheduler(cluster.QueueArguments("state: {every: 1h}"), lead...)
	restored := func(p *local.Serving) {
		w.Eventually(p.Name()+" restores the state", func() (bool, string) {
			return len(w.Log(p.Process, "Saved state restored")) == 1, local.LastLines(p.Log(), 3)
		})
	}
	restored(leader)
	last := pod("last", "", 1)
	last.Labels = nil
	w.Create(last)
	w.Bound("last")
	standby := w.Scheduler(configuration, lead...)
	if err := leader.Stop(); err != nil { // it saves before it ends, though its next turn is in an hour
		t.Fatal(err)
	}
	restored(standby)
	after := w.saved("no more requests", func(s *state.State) bool { return s.At > before.At })
	if got, want := after.Learned.Mix.Arrivals, before.Learned.Mix.Arrivals+1; got != want {
		t.Errorf("%d requests are counted, want %d", got, want)
	}
}
