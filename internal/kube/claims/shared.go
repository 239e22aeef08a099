package claims

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// shared is what is read and written also without the engine's lock: pods' requests are read
// in scheduling cycles, too. It has a lock of its own, under which nothing else is called.
type shared struct {
	mu   sync.Mutex
	asks map[types.UID]*dra.Ask // what pods' claims asked for when their places were planned
	// vacated: until when no pod starts with a claim whose users were evicted, by its key.
	vacated map[string]time.Time
	// awaiting are pods that wait for selectors to be evaluated, by the selectors' key.
	awaiting map[string]map[types.UID]*v1.Pod
}

func (s *shared) ask(uid types.UID) *dra.Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[uid]
}

// setAsk remembers what a pod's claims ask for; nil forgets it.
func (s *shared) setAsk(uid types.UID, a *dra.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.asks, uid); a != nil {
		s.asks[uid] = a
	}
}

// occupy lets pods start with a claim again, and says whether none did before.
func (s *shared) occupy(key string) (vacated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, vacated = s.vacated[key]
	delete(s.vacated, key)
	return vacated
}

// await has a pod read again when selectors are evaluated.
func (s *shared) await(key string, pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting[key] == nil {
		s.awaiting[key] = map[types.UID]*v1.Pod{}
	}
	s.awaiting[key][pod.UID] = pod
}

func (s *shared) evaluated(key string) []*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.awaiting, key)
	return slices.Collect(maps.Values(s.awaiting[key]))
}

// vacateFor is how long no pod starts with a shared claim whose users were evicted, unless it
// is deallocated before: that pod would keep the devices. It is longer than grace periods.
const vacateFor = 5 * time.Minute

// Vacate keeps pods from starting with shared claims of a pod that is evicted.
func (c *Claims) Vacate(pod *v1.Pod, now time.Time) {
	for _, key := range c.book.Named(pod) {
		if claim := c.book.Claim(key); claim != nil && len(claim.Status.ReservedFor) > 1 {
			c.shared.mu.Lock()
			c.shared.vacated[key] = now.Add(vacateFor)
			c.shared.mu.Unlock()
		}
	}
}

// Stays lets pods start again with claims of one that stays. It returns claims to look at.
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

// Vacated says which claim of a pod is being given back, until when. Safe for concurrent use.
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
