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

// evaluated are the pods that waited for selectors.
func (s *shared) evaluated(key string) []*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.awaiting, key)
	return slices.Collect(maps.Values(s.awaiting[key]))
}
