package cluster

import (
	"time"

	"github.com/tangram-dev/tangram/core/memo"
)

// End is when the gang's members would end that start now. Those that join a running
// gang end with it.
func (g *Tracked) End(now int64) int64 {
	switch {
	case g.Runtime <= 0:
		return memo.Never
	case len(g.placed) > 0:
		return g.Expected(now)
	}
	return memo.Later(now, int64(g.Runtime))
}

// Expected is when the running gang ends. One that is over its time is given an eighth
// of what it took, again and again: its owner's guess was not far off, as a rule.
func (g *Tracked) Expected(now int64) int64 {
	if g.Runtime <= 0 {
		return memo.Never
	}
	at := memo.Later(g.started, int64(g.Runtime))
	if at <= now {
		at = memo.Later(now, max(int64(time.Second), (now-g.started)/8))
	}
	return at
}
