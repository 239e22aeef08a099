package claims

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// vacateFor is how long no pod starts with a shared claim whose users were evicted, unless it
// is deallocated before: a pod that began to use it would keep its devices from those for
// which they were evicted. Long enough for grace periods; claims that are deallocated sooner
// end it sooner.
const vacateFor = 5 * time.Minute

// Vacate keeps pods from starting with the claims of a pod that is evicted together with
// others that use them.
func (c *Claims) Vacate(pod *v1.Pod, now time.Time) {
	for _, key := range c.book.Named(pod) {
		if claim := c.book.Claim(key); claim != nil && len(claim.Status.ReservedFor) > 1 {
			c.shared.mu.Lock()
			c.shared.vacated[key] = now.Add(vacateFor)
			c.shared.mu.Unlock()
		}
	}
}

// Stays lets pods start again with the claims of one that could not be evicted. It returns
// the claims that are to be looked at again, by namespace/name.
func (c *Claims) Stays(pod *v1.Pod) (again []string) {
	if c == nil {
		return nil
	}
	for _, key := range c.book.Named(pod) {
		if c.shared.occupy(key) {
			again = append(again, key)
		}
	}
	return again
}

// Vacated says which claim of a waiting pod is being given back, and until when at the
// latest. It is safe for concurrent use.
func (c *Claims) Vacated(pod *v1.Pod) (claim string, until time.Time) {
	for _, key := range c.book.Named(pod) {
		c.shared.mu.Lock()
		at, vacated := c.shared.vacated[key]
		c.shared.mu.Unlock()
		if !vacated {
			continue
		}
		if claim := c.book.Claim(key); claim == nil || claim.Status.Allocation == nil || !c.clock().Before(at) {
			c.shared.occupy(key)
			continue
		}
		return key, at
	}
	return "", time.Time{}
}
