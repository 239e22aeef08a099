package answer

import (
	"slices"

	"github.com/tangram-dev/tangram/core/topology"
)

// Pursuit is for which domain a gang asks an autoscaler for nodes. Which domains can grow
// is not known here: it stays with one while nodes come, and goes on to the next when none
// came for a while. The zero value is none.
type Pursuit struct {
	// Domain is where; the zero value means one that does not exist yet.
	Domain topology.Domain
	Values []string
	// Since is when it was chosen, or had progress last; Placed is what fitted then.
	Since  int64
	Placed int
	// Tried are domains in which no node came, in this round.
	Tried []topology.Domain
	begun bool
}

// New says that nodes of a domain are asked for that has none yet.
func (p *Pursuit) New() bool { return p.begun && p.Domain == (topology.Domain{}) }

// Next is the pursuit at a time, given the domains there are, as Shortages has them. After
// the last of them comes a new domain, unless they are fixed; then the first again.
func (p Pursuit) Next(where []Shortage, fixed bool, now, patience int64) Pursuit {
	at := slices.IndexFunc(where, func(s Shortage) bool { return s.Domain == p.Domain })
	switch {
	case !p.begun, at < 0 && !p.New(): // the first, or its nodes are gone
	case at >= 0 && where[at].Placed > p.Placed:
		p.Since, p.Placed = now, where[at].Placed
		return p
	case now-p.Since < patience:
		if at >= 0 {
			p.Placed = where[at].Placed
		}
		return p
	default:
		p.Tried = append(slices.Clone(p.Tried), p.Domain)
	}
	for range 2 {
		for _, s := range where {
			if !slices.Contains(p.Tried, s.Domain) {
				return Pursuit{Domain: s.Domain, Values: s.Values, Since: now, Placed: s.Placed, Tried: p.Tried, begun: true}
			}
		}
		if !fixed && !slices.Contains(p.Tried, topology.Domain{}) {
			return Pursuit{Since: now, Placed: most(where), Tried: p.Tried, begun: true}
		}
		p.Tried = nil
	}
	return Pursuit{} // there is no domain, and a new one would not help
}

// Into is the pursuit once a node of a new domain has come: the rest is asked for there.
func (p Pursuit) Into(s Shortage, now int64) Pursuit {
	return Pursuit{Domain: s.Domain, Values: s.Values, Since: now, Placed: s.Placed, Tried: p.Tried, begun: true}
}

// most is how many members have room in the domain that has room for most.
func most(where []Shortage) int {
	out := 0
	for _, s := range where {
		out = max(out, s.Placed)
	}
	return out
}
