package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// ability follows whether the scheduler is able to work: the API server serves, the
// lease is renewed by a process that runs, and the checker's own watch is up.
type ability struct {
	w  *world
	mu sync.Mutex
	// why are the reasons why it is not, with the moment from which on it counts: the
	// reason ends with evidence that is younger.
	why  map[string]time.Time
	able bool
	// again is when the last reason ended, by its evidence.
	again time.Time
}

// Reasons why the scheduler cannot work, or the checker cannot see.
const (
	noAPI    = "the API server does not serve"
	noLeader = "no running scheduler renews the lease"
	noWatch  = "the checker's watch is down"
)

func newAbility(w *world) *ability {
	return &ability{w: w, why: map[string]time.Time{noAPI: {}, noLeader: {}, noWatch: {}}}
}

// lost says that a reason holds from now on.
func (a *ability) lost(reason string) { a.change(func() { a.why[reason] = time.Now() }) }

// regained says that evidence of a moment shows that a reason holds no more.
func (a *ability) regained(reason string, seen time.Time) {
	a.change(func() {
		if since, ok := a.why[reason]; ok && seen.After(since) {
			delete(a.why, reason)
			a.again = seen
		}
	})
}

func (a *ability) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	if able := len(a.why) == 0; able != a.able {
		a.able = able
		reasons := strings.Join(slices.Sorted(maps.Keys(a.why)), "; ")
		a.w.checker.Able(time.Now(), able, reasons)
	}
}

// has says whether a reason holds.
func (a *ability) has(reason string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.why[reason]
	return ok
}

// sinceWhen is the moment from which on a leader worked with an API server, if one
// does now: a binding that is younger is not one that was under way before a fault.
func (a *ability) sinceWhen() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.again, len(a.why) == 0
}

// follow asks the API server and looks at the lease until ctx ends.
func (a *ability) follow(ctx context.Context) {
	stale := 2*local.RetryPeriod(a.w.cfg.Lease) + time.Second
	eachTick(ctx, 200*time.Millisecond, func() {
		asked := time.Now()
		call, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		lease, err := a.w.client.CoordinationV1().Leases("kube-system").Get(call, "gpu-scheduler", metav1.GetOptions{})
		if ctx.Err() != nil {
			return
		}
		if err == nil && a.has(noAPI) {
			// It answers the administrator before it knows what others may do.
			_, err = a.w.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(call)
		}
		if err != nil {
			a.lost(noAPI)
			return
		}
		a.regained(noAPI, asked)
		if lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || time.Since(lease.Spec.RenewTime.Time) > stale {
			a.lost(noLeader)
			return
		}
		a.regained(noLeader, lease.Spec.RenewTime.Time)
	})
}

// awaitAPI waits until the API server serves again.
func (a *ability) awaitAPI(ctx context.Context, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for a.has(noAPI) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the API server does not serve again within %s", limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
