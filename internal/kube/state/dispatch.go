package state

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/dispatch"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Turn is what a decision asks the adapter to do.
type Turn struct {
	// Wake are pods to be put into kube-scheduler's queue: released ones, and those
	// whose owners are to be told why they wait.
	Wake []*v1.Pod
	// Evict are pods that must go, and for whom.
	Evict []Victim
	// News are pods that wait for their queue or for other members: their owners are
	// told by an event, since nobody could help by adding a node.
	News []Wait
}

// Victim is a pod to be evicted.
type Victim struct {
	Pod *v1.Pod
	For dispatch.ID
}

// Wait is why a pod waits.
type Wait struct {
	Pod *v1.Pod
	// Reason is one word: events of one word are counted together, so each kind of
	// wait has its own.
	Reason, Text string
}

// maxNews bounds how many gangs are told something new in one turn.
const maxNews = 64

// Kicked tells that something changed that may let somebody start.
func (c *Cluster) Kicked() <-chan struct{} { return c.kicked }

// kick makes the dispatcher look again.
func (c *Cluster) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}

// Dispatch decides who starts now.
func (c *Cluster) Dispatch(now time.Time) Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var t Turn
	e := c.gangs.engine
	if e == nil {
		if !c.gangs.opened {
			return t
		}
		c.gangs.opened = false
		for _, g := range c.gangs.groups {
			for _, m := range g.pods {
				if m.pod.Spec.NodeName == "" && c.gangs.releases[model.HolderID(m.pod.UID)] == nil {
					t.Wake = append(t.Wake, m.pod)
				}
			}
		}
		return t
	}
	if c.gangs.stale {
		c.gangs.stale = false
		_ = e.Tree().SetTotal(c.total()) // what nodes offer is never negative
	}
	d := e.Decide(now.UnixNano())
	for _, s := range d.Starts {
		b := &Batch{Gang: s.Gang, Reserved: map[model.HolderID]bool{}}
		for _, p := range s.Plan.Placements {
			b.Members = append(b.Members, p.Holder)
			v, ok := c.ledger.View(p.Node)
			m := c.gangs.groups[s.Gang].pods[p.Holder]
			if !ok || m == nil {
				continue
			}
			if _, ok := c.gangs.ranks[p.Holder]; !ok {
				c.gangs.nextRank++
				c.gangs.ranks[p.Holder] = c.gangs.nextRank
			}
			c.gangs.releases[p.Holder] = &Release{Assignment{v.Node, p.Grant}, b}
			t.Wake = append(t.Wake, m.pod)
		}
		delete(c.gangs.told, s.Gang)
	}
	for _, x := range d.Evicts {
		for _, h := range x.Members {
			if g := c.gangs.groups[c.gangs.member[h]]; g != nil && g.pods[h] != nil {
				t.Evict = append(t.Evict, Victim{g.pods[h].pod, x.For})
			}
		}
	}
	c.tellWhy(&t, d.Blocked)
	c.tellWhy(&t, slices.Sorted(maps.Keys(c.gangs.news)))
	clear(c.gangs.news)
	return t
}

// tellWhy finds what is new about gangs that could not start.
func (c *Cluster) tellWhy(t *Turn, blocked []dispatch.ID) {
	told := 0
	for _, id := range blocked {
		g := c.gangs.groups[id]
		if g == nil || told == maxNews {
			continue
		}
		why := c.gangs.engine.Why(id)
		if why.Text == "" || c.gangs.told[id] == why.Text {
			continue
		}
		c.gangs.told[id] = why.Text
		told++
		for h, m := range g.pods {
			if m.pod.Spec.NodeName != "" || c.gangs.releases[h] != nil {
				continue
			}
			if why.Quota || why.Incomplete {
				reason := "WaitingForMembers"
				if why.Quota {
					reason = "WaitingForQuota"
				}
				t.News = append(t.News, Wait{m.pod, reason, why.Text})
				continue
			}
			c.gangs.verdicts[h] = why.Text
			t.Wake = append(t.Wake, m.pod)
		}
	}
}

// total is what the nodes offer.
func (c *Cluster) total() map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for id := range c.ledger.Nodes() {
		v, _ := c.ledger.View(id)
		out[dispatch.CPU] += v.Node.Host.CPU
		out[dispatch.Memory] += int64(v.Node.Host.Memory)
		for _, vendor := range model.Vendors {
			for slot := range v.Healthy(vendor).Slots() {
				out[dispatch.GPU(vendor)] += model.FullMilli
				if name := v.Node.Devices[slot].Model.Name(); name != "" {
					out[dispatch.Model(name)] += model.FullMilli
				}
			}
		}
	}
	return out
}

// Standing says how a pod stands with the dispatcher.
type Standing uint8

// Free pods wait for nobody. Gated ones wait for their turn; Released ones have a
// place; a Told one still waits, and its owner is to be told why.
const (
	Free Standing = iota
	Gated
	Released
	Told
)

// StandingOf says whether a pod may be scheduled now, and if it waits, why.
func (c *Cluster) StandingOf(pod *v1.Pod) (Standing, string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id := model.HolderID(pod.UID)
	if c.gangs.releases[id] != nil {
		return Released, ""
	}
	if text, ok := c.gangs.verdicts[id]; ok {
		return Told, text
	}
	m, err := dialect.MembershipOf(pod)
	if err != nil {
		return Told, err.Error()
	}
	if c.gangs.engine == nil && m.Key == "" {
		return Free, ""
	}
	if m.Key == "" {
		if r, err := dialect.RequestOn(pod, c.Levels()); err != nil || r == nil {
			return Free, "" // refused elsewhere, or without GPUs
		}
	} else if m.Owner.Kind != "" && c.ownerSize(pod.Namespace, &m) <= 1 && c.gangs.engine == nil {
		return Free, ""
	}
	if key, ok := c.gangs.member[id]; ok && c.gangs.engine != nil {
		if why := c.gangs.engine.Why(key); why.Text != "" {
			return Gated, why.Text
		}
	}
	return Gated, "waits for its turn"
}

// Heard takes note that a pod's owner was told why it waits.
func (c *Cluster) Heard(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gangs.verdicts, model.HolderID(pod.UID))
}

// ReleaseOf is a pod's release, or nil.
func (c *Cluster) ReleaseOf(pod *v1.Pod) *Release {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs.releases[model.HolderID(pod.UID)]
}

// RankOf is a pod's rank among released ones; false for others.
func (c *Cluster) RankOf(pod *v1.Pod) (int64, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	rank, ok := c.gangs.ranks[model.HolderID(pod.UID)]
	return rank, ok
}

// Reserved takes note that a member waits for the others of its batch only, and
// returns those who may go now: nobody before the last.
func (c *Cluster) Reserved(pod *v1.Pod) (ready bool, others []model.HolderID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := model.HolderID(pod.UID)
	r := c.gangs.releases[id]
	if r == nil {
		return true, nil
	}
	r.Batch.Reserved[id] = true
	for _, h := range r.Batch.Members {
		if !r.Batch.Reserved[h] {
			return false, nil
		}
	}
	for _, h := range r.Batch.Members {
		if h != id {
			others = append(others, h)
		}
	}
	return true, others
}

// Fail takes back the release of a member, and with it that of all members planned
// with it that are not bound. It returns those who must stop waiting for it.
func (c *Cluster) Fail(pod *v1.Pod) []model.HolderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := model.HolderID(pod.UID)
	r := c.gangs.releases[id]
	if r == nil {
		return nil
	}
	var undone, waiting []model.HolderID
	for _, h := range r.Batch.Members {
		if c.gangs.releases[h] == nil || c.gangs.releases[h].Batch != r.Batch {
			continue
		}
		delete(c.gangs.releases, h)
		if _, claim, ok := c.ledger.Claim(h); ok && !claim.Assumed {
			continue // bound meanwhile
		}
		undone = append(undone, h)
		if h != id {
			waiting = append(waiting, h)
		}
	}
	if c.gangs.engine != nil {
		c.gangs.engine.Undo(r.Batch.Gang, undone)
	} else {
		for _, h := range undone {
			c.ledger.Forget(h)
		}
	}
	c.kick()
	slices.Sort(waiting)
	return waiting
}

// Spared takes note that a victim may not be evicted: it stays, and for a while it is
// not asked again.
func (c *Cluster) Spared(v Victim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gangs.spared[model.HolderID(v.Pod.UID)] = time.Now().Add(spareFor)
	if c.gangs.engine != nil {
		c.gangs.engine.Spared(model.HolderID(v.Pod.UID))
	}
	time.AfterFunc(spareFor, c.kick)
}

// spareFor is how long a pod is left alone that could not be evicted.
const spareFor = 30 * time.Second

// evictable says whether a pod may be asked to go.
func (c *Cluster) evictable(h model.HolderID) bool {
	until, ok := c.gangs.spared[h]
	if ok && time.Now().After(until) {
		delete(c.gangs.spared, h)
		ok = false
	}
	return !ok
}
