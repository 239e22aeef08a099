package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// fill places the gang inside a scope, or places no member. explain, if given, is
// called before a failed attempt is rolled back, with the role that was short.
func (m *maker) fill(s scope, explain func(*filling, int)) (Plan, bool) {
	tx := m.l.Begin()
	f := newFilling(m, s)
	// First the minimum of each role, then the gang's own minimum, then the optional
	// members. A gang whose minimum is all of its members needs one pass only.
	if m.goal < m.members {
		for _, role := range m.order {
			if f.upTo(role, m.ask.Roles[role].Min); f.short >= 0 {
				return f.fail(tx.Rollback, explain)
			}
		}
		need := Spread(m.least, m.ask.Roles)
		for _, role := range m.order {
			f.upTo(role, need[role])
		}
	}
	for _, role := range m.order {
		f.upTo(role, len(m.ask.Roles[role].Members))
	}
	if len(f.placed) < m.goal {
		return f.fail(tx.Rollback, explain)
	}
	tx.Keep()
	return f.plan(), true
}

// allowed is how many members of a role Allow permits beside those placed of other
// roles, at most most.
func (f *filling) allowed(role, most int) int {
	if f.ask.Allow == nil || most == f.taken[role] {
		return most
	}
	counts := slices.Clone(f.taken)
	low, high := f.taken[role], most // low is allowed
	for low < high {
		if counts[role] = (low + high + 1) / 2; f.ask.Allow(counts) {
			low = counts[role]
		} else {
			high = counts[role] - 1
		}
	}
	return low
}

// filling is one attempt to place the gang inside a scope.
type filling struct {
	*maker
	scope  scope
	placed []Placement
	used   []model.NodeID // in the order of first use
	// near are the nodes where members are: those of running members, then used.
	near []model.NodeID
	// taken counts the members placed of each role; short is the first role with a
	// member that could not be placed, or -1.
	taken []int
	short int
}

func newFilling(m *maker, s scope) *filling {
	return &filling{maker: m, scope: s, near: m.beside(), taken: make([]int, len(m.ask.Roles)), short: -1}
}

func (f *filling) plan() Plan {
	return Plan{Placements: f.placed, Domain: f.scope.path, Nodes: len(f.used)}
}

// upTo places members of a role until count of them are placed, or no node takes one.
func (f *filling) upTo(role, count int) {
	members, had := f.ask.Roles[role].Members, f.taken[role]
	f.taken[role] += f.role(role, members[had:f.allowed(role, max(count, had))])
	if f.taken[role] < count && f.short < 0 {
		f.short = role
	}
}

// fail records how far the attempt came, if further than earlier ones, and rolls it
// back.
func (f *filling) fail(undo func(), explain func(*filling, int)) (Plan, bool) {
	if explain != nil {
		explain(f, f.short)
	}
	// Of attempts that came as far, the one in the whole cluster tells of all nodes.
	further := len(f.placed) > f.failure.Placed || len(f.placed) == f.failure.Placed && f.scope.nodes == nil
	if further && f.goal == f.least {
		f.failure.Placed, f.failure.Domain, f.failure.Role = len(f.placed), f.scope.path, ""
		f.furthest = f.scope
		if len(f.ask.Roles) > 1 {
			f.failure.Role = f.ask.Roles[f.short].Name
		}
	}
	undo()
	return Plan{}, false
}

// role places as many members of one role as possible, and returns how many.
func (f *filling) role(role int, members []model.HolderID) int {
	r := f.ask.Roles[role].Request
	done := 0
	// most bounds how many go to one node: never more than on the last one, because
	// nodes only get fuller.
	most := min(len(members), 1)
	if r.Kind() == model.Whole {
		most = min(len(members), model.MaxDevices/max(1, r.Count()))
	}
	for done < len(members) && most > 0 {
		count := min(most, len(members)-done)
		at, ok := f.find(role, count)
		if !ok {
			most = f.fewer(role, count)
			continue
		}
		got := 0
		if count == 1 && at.grant != nil {
			f.hold(role, members[done], at.node, *at.grant)
			got++
		}
		for got < count && f.put(role, members[done+got], at.node) {
			got++
		}
		done += got
		if got < count {
			// The node has enough free devices, but not as the members require them: try
			// fewer.
			most = count - 1
		}
	}
	return done
}

// fewer is the largest number below count that some node may have room for, found by
// bisection on the roomiest node.
func (f *filling) fewer(role, count int) int {
	low, high := 1, count-1 // high is the most that may still do
	for low < high {
		middle := (low + high + 1) / 2
		if _, ok := f.find(role, middle); ok {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return high
}

// found is a node for members of a role; grant is what one member gets there, where the search
// has chosen that with the node.
type found struct {
	node  model.NodeID
	grant *place.Grant
}

// find is the best node of the scope for so many members of a role.
func (f *filling) find(role, count int) (found, bool) {
	want := Together(f.ask.Roles[role].Request, count)
	// Nodes that the gang already uses go first.
	for _, id := range f.near {
		if f.scope.has(id) && f.takes(want, role, id) {
			return found{node: id}, true
		}
	}
	switch {
	case f.scope.nodes != nil && len(f.scope.nodes) <= smallScope:
		id, ok := f.scan(want, role)
		return found{node: id}, ok
	case f.scope.nodes == nil && f.ask.May == nil:
		c, ok := f.p.Best(want, f.ask.Weights)
		return found{c.Node, &c.Grant}, ok
	}
	for c := range f.p.Candidates(want, f.ask.Weights) {
		if f.scope.has(c.Node) && f.may(role, c.Node) {
			return found{c.Node, &c.Grant}, true
		}
	}
	return found{}, false
}

// smallScope is the number of nodes up to which scanning a domain is cheaper than
// searching the index.
const smallScope = 128

// scan asks every node of a small scope.
func (f *filling) scan(want *model.Request, role int) (model.NodeID, bool) {
	best, bestTotal := model.NodeID(""), -1
	var bestUnused int
	for _, id := range f.scope.nodes {
		if !f.roomy(want, id) {
			continue
		}
		if len(f.scope.nodes) == 1 { // nothing to choose
			return id, f.takes(want, role, id)
		}
		rating, refusal := f.p.Rate(want, f.ask.Weights, id)
		if refusal != nil || !f.may(role, id) {
			continue
		}
		if unused := rating.Fleet.Unused; rating.Total > bestTotal || rating.Total == bestTotal && unused < bestUnused {
			best, bestTotal, bestUnused = id, rating.Total, unused
		}
	}
	return best, bestTotal >= 0
}

// roomy is the cheap part of takes: free devices, CPU and memory.
func (f *filling) roomy(want *model.Request, id model.NodeID) bool {
	v, there := f.l.View(id)
	if !there || !v.Covers(want) {
		return false
	}
	return want.Vendor == "" || want.Kind() != model.Whole || v.Room(want.Vendor) >= want.Count()
}

func (m *maker) may(role int, id model.NodeID) bool { return m.refusal(role, id) == nil }

// refusal is the answer of the filters outside core about a role and a node.
func (m *maker) refusal(role int, id model.NodeID) *explain.Refusal {
	if m.ask.May == nil {
		return nil
	}
	return m.ask.May(role, id)
}

// takes says whether a node can take a request.
func (f *filling) takes(want *model.Request, role int, id model.NodeID) bool {
	if !f.roomy(want, id) {
		return false
	}
	if want.Vendor != "" {
		v, _ := f.l.View(id)
		if _, refusal := place.Fit(want, v); refusal != nil {
			return false
		}
	}
	return f.may(role, id)
}

// put gives a member its devices on a node. May is asked again for each member, because
// members placed there before can change the answer (anti-affinity, ports).
func (f *filling) put(role int, holder model.HolderID, id model.NodeID) bool {
	r := f.ask.Roles[role].Request
	if !f.roomy(r, id) || !f.may(role, id) {
		return false
	}
	v, _ := f.l.View(id)
	grant, ok := f.grant(r, v)
	if !ok {
		return false
	}
	f.hold(role, holder, id, grant)
	return true
}

// hold gives a member what was chosen for it on a node.
func (f *filling) hold(role int, holder model.HolderID, id model.NodeID, grant place.Grant) {
	v, _ := f.l.View(id)
	claim := grant.Claim(holder, f.ask.Roles[role].Request, v.Node)
	claim.Assumed = true
	f.l.Put(id, claim)
	f.placed = append(f.placed, Placement{holder, role, id, grant})
	if !slices.Contains(f.used, id) {
		f.used = append(f.used, id)
		if !slices.Contains(f.near, id) {
			f.near = append(f.near, id)
		}
	}
}

// grant is what a request gets of a node: nothing when it needs no device. False when the
// devices do not fit.
func (m *maker) grant(r *model.Request, v ledger.View) (place.Grant, bool) {
	if r.Vendor == "" {
		return place.Grant{}, true
	}
	grant, refusal := m.p.Fit(r, v)
	return grant, refusal == nil
}

// Together is the sum of what count members ask of one node. Closeness of devices is
// required per member, not of the sum, so this is a necessary condition only.
func Together(r *model.Request, count int) *model.Request {
	if count == 1 {
		return r
	}
	all := *r
	all.Containers = []model.Container{{Name: "all", Count: r.Count() * count}}
	all.Host, all.Extras = r.Host.Times(count), r.Extras.Times(count)
	all.Require.Bond, all.Prefer.Bond = model.Bond{}, model.Bond{}
	return &all
}
