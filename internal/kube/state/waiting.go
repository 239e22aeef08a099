package state

import (
	v1 "k8s.io/api/core/v1"

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
	}
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
