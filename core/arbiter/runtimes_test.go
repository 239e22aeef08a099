package arbiter_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// TestRuntimesRestored: what was learned is expected again after a restart, and goes on to
// be learned from there.
func TestRuntimesRestored(t *testing.T) {
	var r, again arbiter.Runtimes
	key := func(i int) arbiter.RuntimeKey {
		return arbiter.RuntimeKey{Owner: fmt.Sprint("ns", i%3, "/u"), Shape: fmt.Sprint(i % 7)}
	}
	for i := range 100 {
		r.Observe(key(i), time.Duration(i*i)*time.Second)
	}
	again.Observe(key(1), time.Hour) // replaced
	again.Restore(r.Save())
	for i := range 200 {
		a, okA := r.Estimate(key(i))
		b, okB := again.Estimate(key(i))
		if a != b || okA != okB {
			t.Fatalf("%v: %s %v, restored %s %v", key(i), a, okA, b, okB)
		}
		r.Observe(key(i+3), time.Duration(i)*time.Second)
		again.Observe(key(i+3), time.Duration(i)*time.Second)
	}
	if a, b := r.Clone().Save(), again.Save(); !reflect.DeepEqual(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
}

// TestRuntimesOfAllTenants: a tenant with many users and images pushes no other's runtimes
// to the end of the list, where they would be cut off.
func TestRuntimesOfAllTenants(t *testing.T) {
	var r arbiter.Runtimes
	r.Observe(arbiter.RuntimeKey{Owner: "quiet/anna", Shape: "s"}, time.Hour)
	for i := range 10_000 {
		r.Observe(arbiter.RuntimeKey{Owner: fmt.Sprint("loud/user", i), Shape: fmt.Sprint("image", i)}, time.Minute)
	}
	for i, s := range r.Save() {
		if s.Key.Owner == "quiet/anna" {
			if i > 10 {
				t.Errorf("the quiet tenant's is number %d", i)
			}
			return
		}
	}
	t.Error("the quiet tenant's is missing")
}
