package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// fill places the gang inside a scope, or nobody.
func (m *maker) fill(s scope) (Plan, bool) {
	tx := m.l.Begin()
	f := &filling{maker: m, scope: s}
	// First what each role needs, then what the gang needs, then what it would like.
	need := m.ask.Min
	taken := make([]int, len(m.ask.Roles))
	for _, role := range m.order {
		r := &m.ask.Roles[role]
		taken[role] = f.role(role, r.Members[:min(r.Min, len(r.Members))])
		if taken[role] < r.Min {
			return f.fail(tx.Rollback, role)
		}
		need -= taken[role]
	}
	for _, role := range m.order {
		r := &m.ask.Roles[role]
		rest := r.Members[taken[role]:]
		got := f.role(role, rest)
		need -= got
		if got < len(rest) && need > 0 && role == m.order[len(m.order)-1] {
			return f.fail(tx.Rollback, role)
		}
	}
	if need > 0 {
		return f.fail(tx.Rollback, m.order[len(m.order)-1])
	}
	tx.Keep()
	return Plan{Placements: f.placed, Domain: s.path, Nodes: len(f.used)}, true
}

// filling is one attempt.
type filling struct {
	*maker
	scope  scope
	placed []Placement
	used   []model.NodeID // in the order of first use
}

// fail takes note of how far the attempt came, if further than others, and undoes
// it.
func (f *filling) fail(undo func(), role int) (Plan, bool) {
	if len(f.placed) > f.failure.Placed {
		f.failure.Placed, f.failure.Domain, f.failure.Role = len(f.placed), f.scope.path, ""
		if len(f.ask.Roles) > 1 {
			f.failure.Role = f.ask.Roles[role].Name
		}
		f.failure.Refused = f.p.Reasons(f.ask.Roles[role].Request)
	}
	undo()
	return Plan{}, false
}

// role places members of one role, as many as possible, and says how many.
func (f *filling) role(role int, members []model.HolderID) int {
	r := f.ask.Roles[role].Request
	done := 0
	// most is how many may go to one node: never more than on the last one, since
	// nodes only get fuller.
	most := len(members)
	if r.Kind() == model.Whole {
		most = min(most, model.MaxDevices/max(1, r.Count()))
	} else {
		most = min(most, 1)
	}
	for done < len(members) && most > 0 {
		count := min(most, len(members)-done)
		node, ok := f.find(role, count)
		if !ok {
			most = count - 1
			continue
		}
		got := 0
		for got < count && f.put(role, members[done+got], node) {
			got++
		}
		done += got
		if got < count {
			// It has the devices, but not as the member wants them: try fewer.
			most = count - 1
		}
	}
	return done
}

// find is the best node of the scope for so many members of a role.
func (f *filling) find(role, count int) (model.NodeID, bool) {
	r := f.ask.Roles[role].Request
	want := Together(r, count)
	// Who shares devices or comes alone goes where the gang is already.
	if count == 1 {
		for _, id := range f.used {
			if f.takes(want, role, id) {
				return id, true
			}
		}
	}
	if f.scope.nodes != nil && len(f.scope.nodes) <= smallScope {
		return f.scan(want, role)
	}
	for c := range f.p.Candidates(want, f.ask.Weights) {
		if f.inScope(c.Node) && f.may(role, c.Node) {
			return c.Node, true
		}
	}
	return "", false
}

// smallScope is the size up to which asking all nodes of a domain is cheaper than
// looking for them in the index.
const smallScope = 128

// scan asks every node of a small scope.
func (f *filling) scan(want *model.Request, role int) (model.NodeID, bool) {
	best, bestTotal := model.NodeID(""), -1
	var bestUnused int
	for _, id := range f.scope.nodes {
		v, there := f.l.View(id)
		if !there || !v.FreeHost.Covers(want.Host) {
			continue
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

func (f *filling) inScope(id model.NodeID) bool {
	if f.scope.nodes == nil {
		return true
	}
	_, found := slices.BinarySearch(f.scope.nodes, id)
	return found
}

func (f *filling) may(role int, id model.NodeID) bool { return f.ask.May == nil || f.ask.May(role, id) }

// takes says whether a node of the scope can take a request.
func (f *filling) takes(want *model.Request, role int, id model.NodeID) bool {
	v, there := f.l.View(id)
	if !there || !v.FreeHost.Covers(want.Host) {
		return false
	}
	_, refusal := f.p.Fit(want, v)
	return refusal == nil && f.may(role, id)
}

// put gives a member its devices on a node.
func (f *filling) put(role int, holder model.HolderID, id model.NodeID) bool {
	r := f.ask.Roles[role].Request
	v, there := f.l.View(id)
	if !there || !v.FreeHost.Covers(r.Host) {
		return false
	}
	grant, refusal := f.p.Fit(r, v)
	if refusal != nil {
		return false
	}
	claim := grant.Claim(holder, r, v.Node)
	claim.Assumed = true
	f.l.Put(id, claim)
	f.placed = append(f.placed, Placement{holder, role, id, grant})
	if !slices.Contains(f.used, id) {
		f.used = append(f.used, id)
	}
	return true
}

// Together is what several members ask of one node. How close devices must be
// counts for each member on its own.
func Together(r *model.Request, count int) *model.Request {
	if count == 1 {
		return r
	}
	all := *r
	all.Containers = []model.Container{{Name: "all", Count: r.Count() * count}}
	all.Host = model.Host{CPU: r.Host.CPU * int64(count), Memory: r.Host.Memory * model.MiB(count)}
	return &all
}
