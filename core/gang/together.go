package gang

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// together weighs the members of all leaves against each other, each leaf in the scope that
// was chosen for it.
func (t *nest) together() bool {
	ask := &Ask{Weights: t.Weights, Terse: true, Allow: nil}
	// Leaves whose members are alike, and whose scope is the same, are one role.
	var rolesOf [][]int // the gang's roles of each role, one entry for each member
	var scopes []scope
	at := map[string]int{}
	for _, g := range t.last {
		s := t.scopes[g]
		for i, n := range t.groups.counts(g) {
			role := t.groups.roles[g][i]
			r := t.Roles[role]
			if n == 0 {
				continue
			}
			key := fmt.Sprintf("%q %d %s", s.path, len(s.nodes), r.Shape)
			if r.Shape == "" {
				key = fmt.Sprint(role)
			}
			to, ok := at[key]
			if !ok {
				to = len(ask.Roles)
				at[key] = to
				ask.Roles = append(ask.Roles, Role{Name: r.Name, Request: r.Request})
				rolesOf, scopes = append(rolesOf, nil), append(scopes, s)
			}
			into := &ask.Roles[to]
			into.Members = append(into.Members, r.Members[:n]...)
			into.Min += n
			for range n {
				rolesOf[to] = append(rolesOf[to], role)
			}
		}
	}
	if len(t.last) == 0 {
		return true
	}
	ask.May = func(role int, id model.NodeID) *explain.Refusal {
		if !scopes[role].has(id) {
			return &explain.Refusal{Code: explain.Neighbor}
		}
		if t.May == nil {
			return nil
		}
		return t.May(rolesOf[role][0], id)
	}
	p := t.sites.partOf(ask, nil)
	counts := slices.Clone(t.taken)
	for _, roles := range rolesOf {
		for _, role := range roles {
			counts[role]++
		}
	}
	if t.Allow != nil && !t.Allow(counts) {
		return false
	}
	plan, ok := p.jointly(union(scopes), &t.steps)
	if t.steps <= 0 {
		t.cut, t.tries = true, 0
	}
	if !ok {
		return false
	}
	for _, x := range plan.Placements {
		r := ask.Roles[x.Role]
		x.Role = rolesOf[x.Role][slices.Index(r.Members, x.Holder)]
		t.placed = append(t.placed, x)
		t.taken[x.Role]++
	}
	return true
}

// jointly places all members by weighing, at the cost of some steps.
func (p *part) jointly(s scope, steps *int) (Plan, bool) {
	w := p.newWeighing()
	if w == nil { // one role, or too many
		if len(p.ask.Roles) > 1 {
			*steps = 0
		}
		return p.maker.fill(s, nil)
	}
	w.steps = *steps
	ways := w.assign(s)
	*steps = w.steps
	if ways == nil {
		return Plan{}, false
	}
	return w.carryOut(s, ways)
}

// union is the nodes of some scopes.
func union(scopes []scope) scope {
	var out []model.NodeID
	for _, s := range scopes {
		if s.nodes == nil {
			return scope{}
		}
		out = append(out, s.nodes...)
	}
	slices.Sort(out)
	return scope{nodes: slices.Compact(out)}
}
