package engine

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
	// Claim is as it was seen: the write must name its resource version.
	Claim *resourceapi.ResourceClaim
	// Pods are those that name it or that it is reserved for; none of them is bound, as far
	// as was seen.
	Pods []*v1.Pod
}

// Key is the claim's namespace/name.
func (g *GiveBack) Key() string { return g.Claim.Namespace + "/" + g.Claim.Name }

const (
	// reservedLeft is how long a claim must have been left behind that is still reserved for
	// a pod: the Binding of a leader that was may be on its way.
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
func (e *Engine) lookLeft(key string, now time.Time) {
	l := e.claims.left[key]
	if l != nil && l.underWay {
		return // its answer comes
	}
	g := e.leftBehind(key)
	if g == nil {
		delete(e.claims.left, key)
		return
	}
	at := now
	if len(g.Claim.Status.ReservedFor) > 0 {
		at = now.Add(reservedLeft)
	}
	if l == nil {
		e.claims.left[key] = &leftover{at: at}
	} else if at.Before(l.at) {
		l.at = at // nobody is in its list any more
	}
}

// leftBehind is what to give back of a claim; nil when it is in use, may be in use, or is
// another scheduler's. Nobody but this scheduler binds its pods, and none of those is on its
// way.
func (e *Engine) leftBehind(key string) *GiveBack {
	c := e.book.Claim(key)
	if c == nil || c.Status.Allocation == nil || c.DeletionTimestamp != nil || dra.ForExtended(c) != "" {
		return nil
	}
	out := &GiveBack{Claim: c}
	for _, ref := range c.Status.ReservedFor {
		if ref.Resource != "pods" || ref.APIGroup != "" {
			return nil
		}
		p, err := e.pods.Pods(c.Namespace).Get(ref.Name)
		if err != nil || p.UID != ref.UID || !e.idle(p) {
			return nil // of a pod that is gone, kube-controller-manager takes it back
		}
		out.Pods = append(out.Pods, p)
	}
	for _, p := range e.book.Users(key) {
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if !e.idle(p) {
			return nil
		}
		if !slices.ContainsFunc(out.Pods, func(o *v1.Pod) bool { return o.UID == p.UID }) {
			out.Pods = append(out.Pods, p)
		}
	}
	if h := e.book.Holds(c.Status.Allocation); len(out.Pods) == 0 && h.Empty() {
		return nil // other drivers' devices that nobody waits for
	}
	return out
}

// idle says whether a pod waits for the engine, and has no place.
func (e *Engine) idle(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && e.reader.Owns(p.Spec.SchedulerName) && e.Manages(p) && !e.keepsPlace(p)
}

// giveBack are the claims to be given back now.
func (e *Engine) giveBack(now time.Time) (out []GiveBack) {
	if !e.claims.leads { // what a standby saw was another leader's work
		e.claims.leads = true
		for key := range e.claims.left {
			delete(e.claims.left, key)
			e.lookLeft(key, now)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.claims.left)) {
		l := e.claims.left[key]
		if l.underWay || l.at.After(now) {
			continue
		}
		g := e.leftBehind(key)
		if g == nil {
			delete(e.claims.left, key)
			continue
		}
		l.underWay = true
		out = append(out, *g)
	}
	return out
}

// GaveBack tells that a claim was given back, or that this has to be tried again.
func (e *Engine) GaveBack(key string, again bool) {
	e.do("given back", func(now time.Time) {
		if l := e.claims.left[key]; l == nil {
			return
		} else if again {
			l.underWay, l.at = false, now.Add(giveBackAgain)
			return
		}
		delete(e.claims.left, key)
		if c := e.book.Claim(key); c == nil || c.Status.Allocation == nil {
			return
		}
		// Seen again with the next event; should that have come before, then now.
		e.claims.left[key] = &leftover{at: now.Add(giveBackAgain)}
	})
}

// nextGiveBack is when to look at claims that were left behind; zero when there is none.
func (e *Engine) nextGiveBack() (first time.Time) {
	for _, l := range e.claims.left {
		if !l.underWay && (first.IsZero() || l.at.Before(first)) {
			first = l.at
		}
	}
	return first
}
