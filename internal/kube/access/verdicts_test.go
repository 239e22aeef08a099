package access

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// judge is an API server that takes its time.
type judge struct {
	asked int
	may   bool
	err   error
}

func (j *judge) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	j.asked++
	decision, err := authorizer.DecisionNoOpinion, j.err
	if j.may {
		decision = authorizer.DecisionAllow
	}
	time.Sleep(time.Second)
	return decision, "because", err
}

// A verdict is waited for once, renewed meanwhile, and never older than ten seconds.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &judge{may: true}
		v := newVerdicts(api)
		list := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann", Groups: []string{"g"}}, Verb: "list", Resource: "pods", ResourceRequest: true}
		ask := func(want bool, waits time.Duration, asked int) {
			t.Helper()
			began := time.Now()
			may, _, err := v.may(t.Context(), &list)
			if took := time.Since(began); may != want || err != nil || took != waits {
				t.Errorf("%v, %v after %v; want %v after %v", may, err, took, want, waits)
			}
			synctest.Wait()
			if api.asked != asked {
				t.Errorf("the API server was asked %d times, want %d", api.asked, asked)
			}
		}
		ask(true, time.Second, 1)
		api.may = false // the right is taken away
		ask(true, 0, 1)
		time.Sleep(verdictRenew)
		ask(true, 0, 2) // asks anew meanwhile, once
		ask(true, 0, 2)
		time.Sleep(time.Second + time.Millisecond)
		ask(false, 0, 2)
		api.may, api.err = true, errors.New("down")
		time.Sleep(verdictRenew)
		ask(false, 0, 3)
		time.Sleep(2 * time.Second)
		ask(false, 0, 4) // one that failed is tried again
		time.Sleep(verdictFor)
		if _, _, err := v.may(t.Context(), &list); err == nil {
			t.Error("a verdict of more than ten seconds ago was used")
		}
		api.err = nil
		ask(true, time.Second, 6)
		other := list
		other.User = &user.DefaultInfo{Name: "ann"} // not in the group
		if keyOf(&other) == keyOf(&list) {
			t.Error("a verdict about one set of groups is used for another")
		}
	})
}
