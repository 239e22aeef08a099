package state

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// waiting is a pod that was looked at and is not placed.
type waiting struct {
	pod     *v1.Pod
	request *model.Request
}

// Wait remembers that a pod waits, and says whether any node could take it as far as
// devices go. Both happen under one lock, so no gain is missed in between.
func (c *Cluster) Wait(pod *v1.Pod, r *model.Request) (fits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A pod deleted while it is looked at would stay for ever: nobody will say again
	// that it is gone.
	if now, err := c.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID == pod.UID {
		c.waits[model.HolderID(pod.UID)] = waiting{pod, r}
		if slices.ContainsFunc(r.Affinity, seeks) {
			c.seekers[model.HolderID(pod.UID)] = true
		}
	}
	return place.Fits(c.ledger, r)
}

// seeks says whether a rule wants others to be there.
func seeks(rule model.AffinityRule) bool { return !rule.Kind.Apart() }

// unwait forgets a pod that waits no more. The caller holds the lock.
func (c *Cluster) unwait(pod *v1.Pod) {
	delete(c.waits, model.HolderID(pod.UID))
	delete(c.seekers, model.HolderID(pod.UID))
}

// sought says whether a waiting pod must be with somebody like a claim's holder. The
// caller holds the lock.
func (c *Cluster) sought(claim *ledger.Claim) bool {
	for h := range c.seekers {
		for _, rule := range c.waits[h].request.Affinity {
			if seeks(rule) && rule.Matches(claim.Labels) {
				return true
			}
		}
	}
	return false
}

// Fits says whether any node can take a request.
func (c *Cluster) Fits(r *model.Request) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return place.Fits(c.ledger, r)
}

// Waiting returns the waiting pods that a node could take now.
func (c *Cluster) Waiting(id model.NodeID) []*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.ledger.View(id)
	if !ok {
		return nil
	}
	var out []*v1.Pod
	for _, w := range c.waits {
		if _, refusal := place.Fit(w.request, v); refusal == nil {
			out = append(out, w.pod)
		}
	}
	return out
}
