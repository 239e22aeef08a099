package state

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// waiting is a pod no node could take when it was last looked at.
type waiting struct {
	pod     *v1.Pod
	request *model.Request
	// shape is equal for requests that are answered alike.
	shape string
}

// verdicts remembers which shapes fit at one version of the ledger, so that a
// thousand waiting pods of one shape cost one search per event.
type verdicts struct {
	mu      sync.Mutex
	version uint64
	fits    map[string]bool
}

// Wait remembers that a pod waits for devices. It looks once more under the same
// lock, so that no gain is missed in between, and returns false when some node
// can take the pod after all.
func (c *Cluster) Wait(pod *v1.Pod, r *model.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiting{pod, r, shapeOf(r)}
	if c.fits(w) {
		return false
	}
	c.waits[model.HolderID(pod.UID)] = w
	return true
}

// Waiting returns the waiting pods that some node could take now, each on its
// own.
func (c *Cluster) Waiting() []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*v1.Pod
	for h, w := range c.waits {
		now, err := c.pods.Pods(w.pod.Namespace).Get(w.pod.Name)
		if err != nil || now.UID != w.pod.UID {
			delete(c.waits, h)
		} else if c.fits(w) {
			out = append(out, now)
		}
	}
	return out
}

// Fits says whether some node can take a pod now.
func (c *Cluster) Fits(pod *v1.Pod, r *model.Request) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	w, ok := c.waits[model.HolderID(pod.UID)]
	if !ok {
		w = waiting{pod, r, shapeOf(r)}
	}
	return c.fits(w)
}

// fits is called with the lock held, for reading at least.
func (c *Cluster) fits(w waiting) bool {
	c.verdicts.mu.Lock()
	defer c.verdicts.mu.Unlock()
	if v := c.ledger.Version(); c.verdicts.version != v || c.verdicts.fits == nil {
		c.verdicts.version, c.verdicts.fits = v, map[string]bool{}
	}
	verdict, known := c.verdicts.fits[w.shape]
	if !known {
		res := place.Search(c.ledger, w.request, score.DefaultWeights())
		verdict = res.Fits()
		c.verdicts.fits[w.shape] = verdict
	}
	return verdict
}

// shapeOf spells all that place.Fit looks at.
func shapeOf(r *model.Request) string {
	return fmt.Sprint(r.Vendor, r.Count(), r.MinMemory, r.UseModels, r.AvoidModels, r.ProfileModels, r.UseUUIDs, r.AvoidUUIDs, r.UseIndexes, r.Attributes)
}
