package claims

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// GiveBack is an allocated claim that a start left behind which failed, or whose scheduler
// ended in the middle of it. The allocation pins the claim's pods to a node, so it is taken
// back, if the API server confirms that none of them is bound.
type GiveBack struct {
	Claim *resourceapi.ResourceClaim // as it was seen: the write must name its resource version
	// Pods name it, or it is reserved for them; none of them is bound, as far as was seen.
	Pods []*v1.Pod
}

// Key is the claim's namespace/name.
func (g *GiveBack) Key() string { return g.Claim.Namespace + "/" + g.Claim.Name }

const (
	// reservedLeft is how long a reserved claim is left: a former leader's Binding may come.
	reservedLeft = 15 * time.Second
	// giveBackAgain is the pause after an attempt that failed.
	giveBackAgain = 10 * time.Second
)

// leftover is a claim that may be given back.
type leftover struct {
	// at is when; under way: a write was asked for and has not been answered.
	at       time.Time
	underWay bool
}

// lookLeft takes note of whether a claim was left behind.
func (c *Claims) lookLeft(key string, now time.Time) {
	l := c.left[key]
	if l != nil && l.underWay {
		return // its answer comes
	}
	g := c.leftBehind(key)
	if g == nil {
		delete(c.left, key)
		return
	}
	at := now
	if len(g.Claim.Status.ReservedFor) > 0 {
		at = now.Add(reservedLeft)
	}
	if l == nil {
		c.left[key] = &leftover{at: at}
	} else if at.Before(l.at) {
		l.at = at // its list of pods has become empty
	}
}

// leftBehind is what to give back of a claim; nil when it is in use, may be in use, or is
// another scheduler's. All its pods are this scheduler's to bind, and none of them is on its
// way.
func (c *Claims) leftBehind(key string) *GiveBack {
	claim := c.book.Claim(key)
	if claim == nil || claim.Status.Allocation == nil || claim.DeletionTimestamp != nil || dra.ForExtended(claim) != "" {
		return nil
	}
	out := &GiveBack{Claim: claim}
	for _, ref := range claim.Status.ReservedFor {
		if ref.Resource != "pods" || ref.APIGroup != "" {
			return nil
		}
		p, err := c.pods.Pods(claim.Namespace).Get(ref.Name)
		if err != nil || p.UID != ref.UID || !c.idle(p) {
			return nil // of a pod that is gone, kube-controller-manager takes it back
		}
		out.Pods = append(out.Pods, p)
	}
	for _, p := range c.book.Users(key) {
		switch {
		case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
		case !c.idle(p):
			return nil
		case !slices.ContainsFunc(out.Pods, func(o *v1.Pod) bool { return o.UID == p.UID }):
			out.Pods = append(out.Pods, p)
		}
	}
	if h := c.book.Holds(claim.Status.Allocation); len(out.Pods) == 0 && h.Empty() {
		return nil // other drivers' devices that no pod waits for
	}
	return out
}

// idle says whether a pod waits for the engine, and has no place.
func (c *Claims) idle(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && c.gate.Owns(p.Spec.SchedulerName) && c.gate.Manages(p) && !c.gate.KeepsPlace(p)
}

// GiveBack are the claims to be given back now. first: this process leads since now.
func (c *Claims) GiveBack(now time.Time, first bool) (out []GiveBack) {
	if c == nil {
		return nil
	}
	if first { // what a standby saw was another leader's work
		for key := range c.left {
			delete(c.left, key)
			c.lookLeft(key, now)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.left)) {
		l := c.left[key]
		if l.underWay || l.at.After(now) {
			continue
		}
		g := c.leftBehind(key)
		if g == nil {
			delete(c.left, key)
			continue
		}
		l.underWay = true
		out = append(out, *g)
	}
	return out
}

// GaveBack tells that a claim was given back, or that this has to be tried again.
func (c *Claims) GaveBack(key string, again bool, now time.Time) {
	switch l := c.left[key]; {
	case l == nil:
		return
	case again:
		l.underWay, l.at = false, now.Add(giveBackAgain)
		return
	}
	delete(c.left, key)
	if claim := c.book.Claim(key); claim != nil && claim.Status.Allocation != nil {
		// Seen again with the next event; should that have come before, then now.
		c.left[key] = &leftover{at: now.Add(giveBackAgain)}
	}
}
