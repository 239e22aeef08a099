package engine

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// vacateFor is how long no pod starts with a shared claim whose users were evicted, unless it
// is deallocated before: a pod that began to use it would keep its devices from those for
// which they were evicted. Long enough for grace periods; who ends sooner ends it sooner.
const vacateFor = 5 * time.Minute

// vacate keeps pods from starting with the claims of pods that are evicted together.
func (e *Engine) vacate(victims []Victim, now time.Time) {
	for _, v := range victims {
		for _, key := range e.book.Named(v.Pod) {
			if c := e.book.Claim(key); c != nil && len(c.Status.ReservedFor) > 1 {
				e.claims.vacated.Store(key, now.Add(vacateFor))
			}
		}
	}
}

// stay lets pods start again with the claims of one that could not be evicted.
func (e *Engine) stay(pod *v1.Pod) {
	if e.book == nil {
		return
	}
	for _, key := range e.book.Named(pod) {
		if _, was := e.claims.vacated.LoadAndDelete(key); was {
			e.feed.push(event{kind: aboutClaim, key: key}, nil)
		}
	}
}

// vacated says which claim of a waiting pod is being given back, and until when at the
// latest. It waits for no lock but the book's.
func (e *Engine) vacated(pod *v1.Pod) (claim string, until time.Time) {
	for _, key := range e.book.Named(pod) {
		at, ok := e.claims.vacated.Load(key)
		if !ok {
			continue
		}
		if c := e.book.Claim(key); c == nil || c.Status.Allocation == nil || !e.clock().Before(at.(time.Time)) {
			e.claims.vacated.Delete(key)
			continue
		}
		return key, at.(time.Time)
	}
	return "", time.Time{}
}

// errVacated is why a pod does not start with a claim that is being given back.
func errVacated(key string) error {
	return &dra.Wait{Why: fmt.Sprintf("ResourceClaim %s is given back: the pods that used it were evicted together", key)}
}
