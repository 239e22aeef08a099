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
	"github.com/tangram-dev/tangram/internal/local"
)

// saved waits until the scheduler has written a state that has what is asked for.
func (w *world) saved(what string, has func(*state.State) bool) *state.State {
	w.t.Helper()
	var out *state.State
	w.eventually("the state has "+what, 30*time.Second, func() (bool, string) {
		text := w.state().Data["state.json"]
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
	configuration := arguments("state: {every: 1s}")

	t.Run("rights", func(t *testing.T) {
		may := func(verb, name string) bool {
			r, err := w.Client.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               schedulerUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: verb, Resource: "configmaps", Name: name},
			}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
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
		p := w.scheduler(configuration)
		pod := pod("pod-"+strings.ReplaceAll(strings.ToLower(name), " ", "-"), "", 1)
		pod.Labels = nil
		start := time.Now()
		w.create(pod)
		w.bound(pod.Name)
		t.Logf("%s: a pod was bound after %s", name, time.Since(start).Round(time.Millisecond))
		ignored, want := logged(t, p, "tate ignored"), 1
		if name == "long ago" || name == "no object" { // valid, or nothing to read
			want = 0
		}
		if len(ignored) != want {
			t.Errorf("%s: logged %q", name, ignored)
		}
		w.saved("the request", func(s *state.State) bool { return s.At > 1 && s.Learned.Mix.Arrivals > 0 })
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if size := len(w.state().Data["state.json"]); size > 256<<10 {
		t.Errorf("the state has %d bytes", size)
	}

	// Of a missing object the log says once what to do, and scheduling goes on.
	if err := w.Client.CoreV1().ConfigMaps("kube-system").Delete(context.Background(), names.StateName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p := w.scheduler(configuration)
	w.eventually("the log says what to do", 20*time.Second, func() (bool, string) {
		lines := logged(t, p, "kubectl -n kube-system create configmap tangram-state")
		return len(lines) == 1, strings.Join(lines, "\n")
	})
	w.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: tangram-state, namespace: kube-system}}")
	before := w.saved("the requests", func(s *state.State) bool { return s.Learned.Mix.Arrivals >= int64(len(hostile)) })
	if lines := logged(t, p, "not saved"); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
	// One that is told to end saves what it learned since the last time.
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	// A standby takes over; pods that were counted are not counted again.
	lead := []string{"--leader-elect=true", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"}
	leader := w.scheduler(arguments("state: {every: 1h}"), lead...)
	restored := func(p *local.Process) {
		w.eventually(p.Name()+" restores the state", 30*time.Second, func() (bool, string) {
			return len(logged(t, p, "Saved state restored")) == 1, local.LastLines(p.Log(), 3)
		})
	}
	restored(leader)
	last := pod("last", "", 1)
	last.Labels = nil
	w.create(last)
	w.bound("last")
	standby := w.scheduler(configuration, lead...)
	if err := leader.Stop(); err != nil { // it saves before it ends, though its next turn is in an hour
		t.Fatal(err)
	}
	restored(standby)
	after := w.saved("no more requests", func(s *state.State) bool { return s.At > before.At })
	if got, want := after.Learned.Mix.Arrivals, before.Learned.Mix.Arrivals+1; got != want {
		t.Errorf("%d requests are counted, want %d", got, want)
	}
}
