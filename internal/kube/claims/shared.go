package claims

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// shared is what is read and written also without the engine's lock: pods' requests are read
// in scheduling cycles, too. It has a lock of its own, under which nothing else is called.
type shared struct {
	mu sync.Mutex
	// asks is what pods' claims asked for when their places were planned.
	asks map[types.UID]*dra.Ask
	// vacated are shared claims whose users were evicted together, by namespace/name, and
	// until when no pod starts with them.
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

func (s *shared) vacate(key string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacated[key] = until
}

// until is until when no pod starts with a claim.
func (s *shared) until(key string) (at time.Time, vacated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, vacated = s.vacated[key]
	return at, vacated
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

// evaluated are the pods that waited for selectors.
func (s *shared) evaluated(key string) map[types.UID]*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.awaiting[key]
	delete(s.awaiting, key)
	return out
}
