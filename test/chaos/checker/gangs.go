package checker

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// gang is a unit that needs several pods at once.
type gang struct {
	minimum int
	members map[string]Pod
	// half is the able clock when the gang was first seen with too few members bound;
	// negative while it is not so.
	half    time.Duration
	since   time.Time
	excused string // why the state is not the scheduler's doing
	said    bool
	whole   bool
}

// standing counts members: live are bound and stay; placed are these and those that
// succeeded, which do not count as missing.
func (g *gang) standing() (live, placed int) {
	for _, p := range g.members {
		switch {
		case p.Phase == v1.PodSucceeded:
			placed++
		case p.holds() && !p.Terminating:
			live++
			placed++
		}
	}
	return live, placed
}

// gangEvent follows the gangs through one change of a pod.
func (c *Checker) gangEvent(now time.Time, before *Pod, p Pod, gone bool) {
	if p.Unit == "" || p.Minimum < 2 || p.Hand {
		return
	}
	g := c.gangs[p.Unit]
	if g == nil {
		g = &gang{minimum: p.Minimum, members: map[string]Pod{}, half: -1}
		c.gangs[p.Unit] = g
	}
	if gone {
		delete(g.members, p.UID)
	} else {
		g.members[p.UID] = p
	}
	if before != nil && before.holds() && !before.Terminating && (gone || p.Terminating || p.Phase == v1.PodFailed) {
		if h := c.holdings[p.UID]; h != nil && h.since.Before(c.outside[p.Node]) {
			g.excused = "node " + p.Node + " was lost"
		}
		if why := c.ending[p.Unit]; why != "" {
			g.excused = why
		}
	}
	c.judgeGang(now, p.Unit, g)
	if len(g.members) == 0 {
		delete(c.gangs, p.Unit)
	}
}

// judgeGang begins, ends or reports the state of being half.
func (c *Checker) judgeGang(now time.Time, name string, g *gang) {
	live, placed := g.standing()
	if live == 0 || placed >= g.minimum {
		if g.half >= 0 && g.excused == "" {
			c.halfStates = append(c.halfStates, c.able.total-g.half)
		}
		g.whole = placed >= g.minimum
		g.half, g.excused, g.said = -1, "", false
		return
	}
	if g.half < 0 {
		g.half, g.since = c.able.total, now
	}
	lasted := c.able.total - g.half
	if g.excused != "" || g.said || lasted <= c.limits.HalfGang {
		return
	}
	g.said = true
	began := "since it began to start"
	if g.whole {
		began = "after it lost members that neither the load nor a lost node took"
	}
	b := Breach{Kind: HalfGang, Pods: nil, Text: fmt.Sprintf("gang %s: %d of %d members bound for %s (%s of it while the scheduler could work), %s",
		name, placed, g.minimum, now.Sub(g.since).Round(time.Millisecond), lasted.Round(time.Millisecond), began)}
	for _, p := range g.members {
		b.Pods = append(b.Pods, p.Name)
	}
	c.breach(now, b)
}
