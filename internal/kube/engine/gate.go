package engine

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Gate is what may be asked without the engine's lock: kube-scheduler asks it while it holds
// the lock of its queue, for every pod and every comparison. It is written under the engine's
// lock.
type Gate struct {
	reader   *workload.Reader
	book     *dra.Book
	pods     corelisters.PodLister
	releases table[*Cycle] // members that may be scheduled now, at the place planned for them
	// paused are members whose release is suspended until they try again at their place.
	paused table[bool]
	// free are pods that turned out not to be the engine's, as long as they are not: of
	// gangs' owners, but alone and without GPUs; with claims for other devices.
	free table[bool]
	// ranks order kube-scheduler's queue; one that changed would corrupt the heap.
	ranks    table[int64]
	nextRank atomic.Int64
	// leads: this process decides. suspended: the API server could not be written to.
	leads, suspended atomic.Bool
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
func (g *Gate) rank(h model.HolderID) {
	if !g.ranks.has(h) {
		g.ranks.put(h, g.nextRank.Add(1))
	}
}

// forget forgets a pod that is gone.
func (g *Gate) forget(h model.HolderID) {
	g.ranks.remove(h)
	g.free.remove(h)
}

// Owns says whether pods of a scheduler name are placed here.
func (g *Gate) Owns(schedulerName string) bool { return g.reader.Owns(schedulerName) }

// Manages says whether a pod is placed by the engine: it asks for GPUs, belongs to a gang,
// names a queue, or says so in a way that is invalid. All other pods are kube-scheduler's.
func (g *Gate) Manages(pod *v1.Pod) bool {
	if !g.reader.Owns(pod.Spec.SchedulerName) || g.free.has(model.HolderID(pod.UID)) {
		return false
	}
	if g.releases.has(model.HolderID(pod.UID)) {
		return true
	}
	x := g.reader.Read(pod)
	if x.MembershipErr != nil || x.Membership.Key != "" || x.Membership.Queue != "" || x.RequestErr != nil || x.Request != nil {
		return true
	}
	return g.book != nil && g.book.Concerns(pod)
}

// Waits says whether a pod has to stay out of kube-scheduler's queue: the engine places it
// and has not released it.
func (g *Gate) Waits(pod *v1.Pod) bool { return !g.Released(pod) && g.Manages(pod) }

// Released says whether a pod has a release.
func (g *Gate) Released(pod *v1.Pod) bool { return g.releases.has(model.HolderID(pod.UID)) }

// KeepsPlace says whether a place is planned for a pod: it may be scheduled now, or tries
// again in a moment.
func (g *Gate) KeepsPlace(pod *v1.Pod) bool {
	return g.Released(pod) || g.paused.has(model.HolderID(pod.UID))
}

// RankOf is a pod's rank among those that were released; false for others.
func (g *Gate) RankOf(pod *v1.Pod) (int64, bool) { return g.ranks.get(model.HolderID(pod.UID)) }

// Gone says whether a pod does not exist any more, or has ended. kube-scheduler's cache may
// not have heard of that yet.
func (g *Gate) Gone(pod *v1.Pod) bool { return latest(g.pods, pod) == nil }

// latest is a pod as the store has it; nil when it is gone or has ended.
func latest(pods corelisters.PodLister, pod *v1.Pod) *v1.Pod {
	p, err := pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || p.UID != pod.UID || ended(p) { // the store knows no other error than "not found"
		return nil
	}
	return p
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// Leads says whether this process decides: it has made its first step.
func (g *Gate) Leads() bool { return g.leads.Load() }

// Suspended says whether the API server could not be written to, and no write has succeeded
// since.
func (g *Gate) Suspended() bool { return g.suspended.Load() }
