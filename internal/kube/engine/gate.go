package engine

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// gate is what kube-scheduler asks while it holds the lock of its queue, for every pod
// and every comparison. It has no lock that a decision could hold meanwhile; it is
// written under the engine's lock.
type gate struct {
	// releases are members that may be scheduled now, at the place planned for them.
	releases table[engine.Release]
	// paused are members whose release is suspended until they try again: they keep their
	// place and what was planned for it.
	paused table[bool]
	// free are pods that turned out not to be the engine's, as long as they are not: of
	// gangs' owners, but alone and without GPUs; with claims for other devices.
	free table[bool]
	// ranks give each pod its place in kube-scheduler's queue, for as long as it
	// exists: an order that changes would corrupt the heap.
	ranks    table[int64]
	nextRank atomic.Int64
}

// table is a map of holders that is read without waiting.
type table[V any] struct{ m sync.Map }

func (t *table[V]) get(h model.HolderID) (out V, ok bool) {
	v, ok := t.m.Load(h)
	if ok {
		out = v.(V)
	}
	return out, ok
}

func (t *table[V]) put(h model.HolderID, v V) { t.m.Store(h, v) }
func (t *table[V]) remove(h model.HolderID)   { t.m.Delete(h) }
func (t *table[V]) has(h model.HolderID) bool { _, ok := t.m.Load(h); return ok }

// rank gives a pod its rank, once for all: when it is first released, before it is put
// into kube-scheduler's queue.
func (g *gate) rank(h model.HolderID) {
	if !g.ranks.has(h) {
		g.ranks.put(h, g.nextRank.Add(1))
	}
}

// Manages says whether a pod is placed by the engine: it asks for GPUs, belongs to a
// gang, names a queue, or says so in a way that is invalid. All other pods are kube-scheduler's. It
// waits for no lock.
func (e *Engine) Manages(pod *v1.Pod) bool {
	if !e.reader.Owns(pod.Spec.SchedulerName) || e.gate.free.has(model.HolderID(pod.UID)) {
		return false
	}
	if e.gate.releases.has(model.HolderID(pod.UID)) {
		return true
	}
	if m, err := dialect.MembershipOf(pod); err != nil || m.Key != "" || m.Queue != "" {
		return true
	}
	r, err := dialect.RequestOn(pod, e.reader.Levels())
	return err != nil || r != nil || e.book != nil && e.book.Concerns(pod)
}

// Waits says whether a pod has to stay out of kube-scheduler's queue: the engine places
// it and has not released it. It waits for no lock.
func (e *Engine) Waits(pod *v1.Pod) bool {
	return !e.gate.releases.has(model.HolderID(pod.UID)) && e.Manages(pod)
}

// Released says whether a pod has a release. It waits for no lock.
func (e *Engine) Released(pod *v1.Pod) bool { return e.gate.releases.has(model.HolderID(pod.UID)) }

// keepsPlace says whether a place is planned for a pod: it may be scheduled now, or tries
// again in a moment. It waits for no lock.
func (e *Engine) keepsPlace(pod *v1.Pod) bool {
	h := model.HolderID(pod.UID)
	return e.gate.releases.has(h) || e.gate.paused.has(h)
}

// RankOf is a pod's rank among those that were released; false for others. It waits for
// no lock.
func (e *Engine) RankOf(pod *v1.Pod) (int64, bool) { return e.gate.ranks.get(model.HolderID(pod.UID)) }
