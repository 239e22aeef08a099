package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// In a large fleet a search among all that runs would take seconds, and everybody waits
// for it. So it is made on some nodes at a time: those first that look best by a count
// of devices alone. When nothing is found there, the next attempt looks at the next
// ones, and an attempt has failed when all have been looked at.

// groundPerMember is how many nodes are looked at for each member of a large gang.
const groundPerMember = 2

// site is a node as a place to search: how it compares with others, and how many of a
// gang's members it could take.
type site struct {
	id     model.NodeID
	domain string
	// order and then: lower is better.
	order, then int64
	hosts       int
}

// ground is the nodes of one attempt; nil for all of them. more: there are others to be
// tried after these.
type ground struct {
	nodes []model.NodeID
	more  bool
}

// groundAt cuts sites into grounds and returns one of them, by number. Sites of one
// domain stay together, and such that could not take the gang are left out. The one
// after the last is all nodes: where no ground alone has room, several may have.
func groundAt(sites []site, fits func(model.NodeID) bool, size, members, number int) ground {
	slices.SortFunc(sites, func(a, b site) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.order, b.order), cmp.Compare(a.then, b.then), cmp.Compare(a.id, b.id))
	})
	most := len(sites)
	if most > 0 && sites[0].domain == sites[most-1].domain { // no more of one domain are needed
		most = (number+2)*size + 1
	}
	var fitting []site
	for _, s := range sites {
		if len(fitting) == most {
			break
		}
		if fits(s.id) {
			fitting = append(fitting, s)
		}
	}
	sites = fitting
	type chunk struct {
		order, then int64 // of the last site that is needed
		from        []site
	}
	var chunks []chunk
	for len(sites) > 0 {
		end := 1
		for end < len(sites) && end < size && sites[end].domain == sites[0].domain {
			end++
		}
		c := chunk{from: sites[:end]}
		sites = sites[end:]
		room := 0
		for _, s := range c.from {
			if room < members {
				c.order, c.then = max(c.order, s.order), c.then+s.then
			}
			room += s.hosts
		}
		if room >= members {
			chunks = append(chunks, c)
		}
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.then, b.then)) })
	if len(chunks) == 0 {
		return ground{nodes: []model.NodeID{}} // none
	}
	var nodes []model.NodeID
	for _, c := range chunks {
		if len(nodes) > 0 && len(nodes)+len(c.from) > size {
			if number == 0 {
				return ground{nodes, true}
			}
			number, nodes = number-1, nil
		}
		for _, s := range c.from {
			nodes = append(nodes, s.id)
		}
	}
	if number == 0 {
		return ground{nodes, members > 1 && len(chunks) > 1}
	}
	return ground{}
}

// small says whether a search may be made on all nodes at once, and how many nodes are
// enough otherwise.
func (e *Engine) small(members int) (size int, small bool) {
	size = max(e.options.Ground, groundPerMember*members)
	nodes, _ := e.ledger.Size()
	return size, nodes <= 2*size
}

// sites lists the nodes with what is free there, and asks what else could be: order
// and then from what the holders there give up.
func (e *Engine) sites(k *known, judge func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool)) []site {
	var largest *model.Request
	need, least := int64(1), int64(math.MaxInt64)
	for _, r := range k.demand().Roles {
		if len(r.Members) == 0 {
			continue
		}
		d := e.planner.Demand(r.Request)
		if largest == nil || d > need {
			largest, need = r.Request, max(1, d)
		}
		least = min(least, max(1, d))
	}
	var out []site
	for id := range e.ledger.Nodes() { // sorted later
		domain, ok := e.domainOf(id, k.Require)
		if !ok {
			continue
		}
		free := int64(0)
		if v, ok := e.ledger.View(id); ok && largest != nil && largest.Kind() == model.Whole {
			free = int64(v.Room(largest.Vendor)) * 1000
		}
		if order, then, gives, ok := judge(id, free, need); ok {
			if hosts := (free + gives) / least; hosts > 0 {
				out = append(out, site{id: id, domain: domain, order: order, then: then, hosts: int(hosts)})
			}
		}
	}
	return out
}

// evictionGround is where victims for a gang are looked for now: where those that have
// to go matter least, and then where they are fewest.
func (e *Engine) evictionGround(k *known, now int64) ground {
	size, small := e.small(k.missing())
	if small {
		return ground{}
	}
	over := e.overShare(k)
	forQuota := e.wait(k, k.missing()).ForQuota()
	type gift struct{ priority, demand int64 }
	var gifts []gift
	sites := e.sites(k, func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool) {
		gifts = gifts[:0]
		for c := range e.ledger.EachClaim(id) {
			if o := e.gangOf(c.Holder); o != nil && e.mayGo(o, k, over, now) {
				d := e.planner.Demand(o.Roles[o.placed[c.Holder].role].Request)
				gifts = append(gifts, gift{int64(o.Priority), d})
				gives += d
			}
		}
		if forQuota && len(gifts) == 0 {
			return 0, 0, 0, false // a place alone does not help it
		}
		slices.SortFunc(gifts, func(a, b gift) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.demand, a.demand))
		})
		order = minPriority
		for _, g := range gifts {
			if free >= need && (!forQuota || then > 0) {
				break
			}
			free += g.demand
			order, then = g.priority, then+1
		}
		return order, then, gives, true
	})
	fits := e.hosts(k, func(o *known) bool { return e.mayGo(o, k, over, now) })
	return groundAt(sites, fits, size, k.missing(), k.ground)
}

// hosts returns what says whether a node could take a member of a gang once the gangs
// there are gone that go.
func (e *Engine) hosts(k *known, goes func(*known) bool) func(model.NodeID) bool {
	ask := k.demand()
	e.constrain(k, ask, nil)
	return func(id model.NodeID) bool {
		v, ok := e.ledger.ViewWith(id, func(h model.HolderID) bool {
			o := e.gangOf(h)
			return o != nil && goes(o)
		}, nil)
		if !ok {
			return false
		}
		for i, r := range ask.Roles {
			if ask.May != nil && ask.May(i, id) != nil {
				continue
			}
			if _, refusal := place.Fit(r.Request, v); refusal == nil && v.Covers(r.Request) {
				return true
			}
		}
		return false
	}
}

// minPriority is below every priority.
const minPriority = -1 << 40

// reservingGround is where an earliest start for a gang is looked for now: where its
// members have room first.
func (e *Engine) reservingGround(k *known, now int64) ground {
	size, small := e.small(k.missing())
	if small {
		return ground{}
	}
	type end struct{ at, demand int64 }
	var ends []end
	sites := e.sites(k, func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool) {
		ends = ends[:0]
		for c := range e.ledger.EachClaim(id) {
			if o := e.gangOf(c.Holder); o != nil && o != k {
				d := e.planner.Demand(o.Roles[o.placed[c.Holder].role].Request)
				ends = append(ends, end{e.expected(o, now), d})
				gives += d
			}
		}
		slices.SortFunc(ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.demand, a.demand)) })
		order = now
		for _, x := range ends {
			if free >= need {
				break
			}
			free += x.demand
			order, then = x.at, then+1
		}
		return order, then, gives, true
	})
	fits := e.hosts(k, func(o *known) bool { return o != k })
	return groundAt(sites, fits, size, k.missing(), k.reserveGround)
}
