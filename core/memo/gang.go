package memo

import "github.com/tangram-dev/tangram/core/arbiter"

// Gang is what is remembered of one gang. The zero value is nothing.
type Gang struct {
	tries [attempts]failure
	// failures counts starts that failed since the last success; before restUntil the gang
	// is left alone. lastRefusal is what kube-scheduler last said of a planned place.
	failures    int
	restUntil   int64
	lastRefusal string
	// overQuota is what its queue or namespace had against the devices that were planned
	// for it last: a share takes more of a small device than of a large one.
	overQuota arbiter.Wait
	// offered is the round in which it was last offered without being planned.
	offered uint64
}

// Changed forgets what does not hold for a gang that was submitted anew. alike: it fits
// like before and has the same priority, so what failed would still fail.
func (g *Gang) Changed(alike bool) {
	if !alike {
		g.tries = [attempts]failure{}
	}
	g.overQuota, g.offered = arbiter.Wait{}, 0
}

// Rests says whether a gang is left alone after a start that failed.
func (g *Gang) Rests(now int64) bool { return now < g.restUntil }

// RestUntil is when a gang's pause ends or ended; 0 when it had none.
func (g *Gang) RestUntil() int64 { return g.restUntil }

// LastRefusal is what kube-scheduler last said of a planned place; empty when it said
// nothing since the last success.
func (g *Gang) LastRefusal() string { return g.lastRefusal }

// Refused notes what was said of a gang's planned place.
func (g *Gang) Refused(why string) { g.lastRefusal = why }

// Started notes that a member of the gang is bound.
func (g *Gang) Started() { g.failures, g.lastRefusal = 0, "" }

// OverQuota is what its queue or namespace had against the devices planned for it last.
func (g *Gang) OverQuota() arbiter.Wait { return g.overQuota }

// Charged notes what its queue or namespace says to the devices planned for it.
func (g *Gang) Charged(w arbiter.Wait) { g.overQuota = w }

// Rest leaves a gang alone for a while, longer each time.
func (m *Memo) Rest(g *Gang) {
	g.restUntil = Later(m.now, m.timing.Start.After(g.failures))
	g.failures++
	m.WakeAt(g.restUntil)
}
