package state

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Standing says how a pod stands with the dispatcher.
type Standing uint8

// Free pods wait for nobody. Gated ones wait for their turn; Released ones have a
// place; of a Told one something makes no sense, and its owner is to be told what.
const (
	Free Standing = iota
	Gated
	Released
	Told
)

// standings are what kube-scheduler asks while it holds the lock of its queue, for
// every pod and every comparison. They have no lock of their own that a decision
// could hold meanwhile.
type standings struct {
	// ours are the profiles whose pods are ours to place, by scheduler name.
	ours atomic.Pointer[map[string]Profile]
	// deciding: there is an engine, so pods wait for others.
	deciding atomic.Bool
	// releases are members that may be scheduled now, at the place planned for them.
	releases table[*Release]
	// ranks give each pod its place in kube-scheduler's queue, for as long as it
	// exists: an order that changes would corrupt the heap.
	ranks table[int64]
}

// table is a map of holders that is read without waiting. It is written under the
// cluster's lock.
type table[V any] struct{ m sync.Map }

func (t *table[V]) get(h model.HolderID) (out V, ok bool) {
	v, ok := t.m.Load(h)
	if ok {
		out = v.(V)
	}
	return out, ok
}

func (t *table[V]) put(h model.HolderID, v V)   { t.m.Store(h, v) }
func (t *table[V]) remove(h model.HolderID)     { t.m.Delete(h) }
func (t *table[V]) has(h model.HolderID) bool   { _, ok := t.m.Load(h); return ok }
func (t *table[V]) of(h model.HolderID) (out V) { out, _ = t.get(h); return out }

// Profile is what a scheduler profile says about its pods.
type Profile struct {
	// Placements are for pods that do not say how they want to be placed.
	Placements Placements
	// Models, when not empty, are the only ones the profile hands out.
	Models []model.GPUModel
}

// Own says that the pods of a scheduler name are ours to place, and what its profile
// says about them. Saying it again replaces that.
func (c *Cluster) Own(schedulerName string, p Profile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]Profile{schedulerName: p}
	for name, other := range c.profiles() {
		if name != schedulerName {
			all[name] = other
		}
	}
	c.standings.ours.Store(&all)
}

// Owns says whether pods of a scheduler name are ours to place.
func (c *Cluster) Owns(schedulerName string) bool {
	_, ok := c.profiles()[schedulerName]
	return ok
}

func (c *Cluster) profiles() map[string]Profile {
	if all := c.standings.ours.Load(); all != nil {
		return *all
	}
	return nil
}

// StandingOf says whether a pod may be scheduled now; of a Told one, what its owner
// is to be told. It waits for no lock.
func (c *Cluster) StandingOf(pod *v1.Pod) (Standing, string) {
	id := model.HolderID(pod.UID)
	if c.standings.releases.has(id) {
		return Released, ""
	}
	m, err := dialect.MembershipOf(pod)
	if err != nil {
		return Told, err.Error()
	}
	alone := m.Key == ""
	if m.Owner.Kind != "" {
		size, known := c.ownerSize(pod, &m)
		if !known {
			return Gated, "" // until its owner is seen
		}
		alone = size <= 1
	} else if !alone {
		if known, problem := c.groupOf(pod, &m); !known && problem != "" {
			return Told, problem
		}
		alone = m.Key == ""
	}
	if alone && !c.standings.deciding.Load() {
		return Free, ""
	}
	r, err := dialect.RequestOn(pod, c.Levels())
	switch {
	case alone && (err != nil || r == nil):
		return Free, "" // refused elsewhere, or without GPUs
	case err != nil:
		return Told, err.Error() // its gang misses it, and nobody else says why
	}
	return Gated, ""
}

// ReleaseOf is a pod's release, or nil.
func (c *Cluster) ReleaseOf(pod *v1.Pod) *Release {
	return c.standings.releases.of(model.HolderID(pod.UID))
}

// RankOf is a pod's rank among those that were let in; false for others. It waits for
// no lock.
func (c *Cluster) RankOf(pod *v1.Pod) (int64, bool) {
	return c.standings.ranks.get(model.HolderID(pod.UID))
}

// rank gives a pod its rank, once for all.
func (c *Cluster) rank(h model.HolderID) {
	if !c.standings.ranks.has(h) {
		c.gangs.nextRank++
		c.standings.ranks.put(h, c.gangs.nextRank)
	}
}
