package state

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// Release is a member's permission to be scheduled, and where.
type Release struct {
	Assignment
	Batch *Batch
}

// Batch is members that were planned together: they are bound together, or none.
type Batch struct {
	Gang    engine.ID
	Members []model.HolderID
	// reserved are those that have passed everything but the wait for the others.
	reserved map[model.HolderID]bool
	// going: the last has come, and all are being bound. From here on each stands for
	// itself: a Binding cannot be taken back.
	going bool
	since time.Time
}

// batchFor is how long a batch may take until its last member is at Permit. Members
// follow each other in the queue, so it is less than a second, unless somebody else
// keeps one of them out of it.
const batchFor = 2 * time.Minute

// Take confirms that a pod still has the place it was given before its cycle.
func (c *Cluster) Take(pod *v1.Pod, r *Release) (Assignment, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standings.releases.of(model.HolderID(pod.UID)) != r {
		return Assignment{}, false
	}
	c.unwait(pod)
	return r.Assignment, true // held since it was planned
}

// Reserved takes note that a member waits for the others of its batch only. It says
// whether all may go now, and who the others are; not ok when the member's place was
// taken back meanwhile.
func (c *Cluster) Reserved(pod *v1.Pod, r *Release) (ready bool, others []model.HolderID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := model.HolderID(pod.UID)
	if c.standings.releases.of(id) != r {
		return false, nil, false
	}
	b := r.Batch
	b.reserved[id] = true
	if len(b.reserved) < len(b.Members) {
		return false, nil, true
	}
	b.going = true
	delete(c.gangs.batches, b)
	for _, h := range b.Members {
		if h != id {
			others = append(others, h)
		}
	}
	return true, others, true
}

// Fail takes back the release of a member whose cycle failed, and with it that of all
// members planned with it. It returns those who must stop waiting for it. rest: nothing
// about the place was wrong, so trying again at once would fail as well. While the
// others are being bound, a member keeps its place and tries again, a few times: who
// took the place meanwhile would leave the gang in part.
func (c *Cluster) Fail(pod *v1.Pod, r *Release, rest bool) []model.HolderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := model.HolderID(pod.UID)
	if c.standings.releases.of(id) != r {
		return nil // taken back before, with another's
	}
	g := c.gangs.groups[r.Batch.Gang]
	if g != nil && g.real && g.pods[id] != nil && rest && r.Batch.going && g.failures < bindTries {
		g.failures++
		c.tryAgain(pod, r)
		return nil
	}
	if g != nil && rest {
		c.rest(g)
	}
	return c.takeBack(id, r)
}

// tryAgain lets a member go to its place once more, by itself.
func (c *Cluster) tryAgain(pod *v1.Pod, r *Release) {
	id := model.HolderID(pod.UID)
	b := &Batch{Gang: r.Batch.Gang, Members: []model.HolderID{id}, reserved: map[model.HolderID]bool{}, since: time.Now()}
	c.gangs.batches[b] = true
	again := &Release{r.Assignment, b}
	c.standings.releases.put(id, again)
	time.AfterFunc(restFirst, func() { // kube-scheduler may have tried by then
		c.mu.Lock()
		if c.standings.releases.of(id) == again {
			c.gangs.awake[id] = pod
		}
		c.mu.Unlock()
		c.kick()
	})
}

// bindTries is how often members of a gang may fail to be bound before they lose their
// places.
const bindTries = 8

// takeBack undoes a release. The caller holds the lock.
func (c *Cluster) takeBack(id model.HolderID, r *Release) (waiting []model.HolderID) {
	undone := []model.HolderID{id}
	if !r.Batch.going {
		undone = r.Batch.Members
		delete(c.gangs.batches, r.Batch)
	}
	var gone []model.HolderID
	for _, h := range undone {
		if c.standings.releases.of(h) == nil || c.standings.releases.of(h).Batch != r.Batch {
			continue
		}
		c.standings.releases.remove(h)
		if h != id {
			waiting = append(waiting, h)
		}
		if _, claim, ok := c.ledger.Claim(h); !ok || claim.Assumed { // not bound
			gone = append(gone, h)
		}
	}
	if c.gangs.engine != nil {
		c.gangs.engine.Undo(r.Batch.Gang, gone)
	}
	for _, h := range gone {
		c.ledger.Forget(h)
	}
	c.touch(r.Batch.Gang)
	c.kick()
	slices.Sort(waiting)
	return waiting
}

// lose takes back the release of a member that is gone, or was bound by others. Those
// who wait for it are told in the next turn. The caller holds the lock.
func (c *Cluster) lose(id model.HolderID) {
	r := c.standings.releases.of(id)
	if r == nil {
		return
	}
	if r.Batch.going {
		c.standings.releases.remove(id)
		return
	}
	c.gangs.rejects = append(c.gangs.rejects, c.takeBack(id, r)...)
}

// expire takes back batches that somebody else keeps out of the queue.
func (c *Cluster) expire(now time.Time) {
	for b := range c.gangs.batches { // each for itself
		if now.Sub(b.since) < batchFor {
			continue
		}
		if g := c.gangs.groups[b.Gang]; g != nil {
			c.rest(g)
		}
		for _, h := range b.Members {
			if r := c.standings.releases.of(h); r != nil && r.Batch == b {
				c.gangs.rejects = append(c.gangs.rejects, append(c.takeBack(h, r), h)...)
				break
			}
		}
		delete(c.gangs.batches, b)
	}
}

// A gang whose start failed for reasons that planning anew does not cure rests, longer
// each time.
const (
	restFirst = time.Second
	restMost  = time.Minute
)

func (c *Cluster) rest(g *group) {
	pause := min(restMost, restFirst<<min(g.failures, 10))
	g.failures++
	g.rests = time.Now().Add(pause)
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		c.touch(g.id)
		c.mu.Unlock()
		c.kick()
	})
}
