package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/topology"
)

// maxDomains bounds how many domains are tried for one gang. Domains with most to
// spare come last at each level, so what is left out is rarely better.
const maxDomains = 64

// Make plans a gang and holds its devices: on success the ledger has an assumed
// claim for every member placed, on failure it is as before. Roll back an enclosing
// trial to only ask.
func Make(l *ledger.Ledger, p *planner.Planner, ask *Ask) (Plan, *Failure) {
	m := &maker{l: l, p: p, ask: ask, failure: Failure{Need: ask.Min, Placed: -1, Level: ask.Require.Name}}
	for i := range ask.Roles {
		m.order = append(m.order, i)
	}
	// Large requests first: small ones find a place beside them, not the reverse.
	slices.SortStableFunc(m.order, func(a, b int) int {
		return ask.Roles[b].Request.Distinct() - ask.Roles[a].Request.Distinct()
	})
	for _, s := range m.scopes() {
		if plan, ok := m.fill(s); ok {
			return plan, nil
		}
	}
	m.failure.Placed = max(m.failure.Placed, 0)
	return Plan{}, &m.failure
}

// maker makes one plan.
type maker struct {
	l       *ledger.Ledger
	p       *planner.Planner
	ask     *Ask
	order   []int // of roles
	failure Failure
}

// scope is where members may go: the nodes of a domain, or all.
type scope struct {
	path  string
	nodes []model.NodeID // sorted; nil for the whole cluster
}

// scopes lists where to try, the tightest first.
func (m *maker) scopes() []scope {
	domains := m.l.Domains()
	require := m.ask.Require
	var out []scope
	add := func(d topology.Domain) {
		if len(out) < maxDomains && !slices.ContainsFunc(out, func(s scope) bool { return s.path == d.Path && s.nodes != nil }) {
			out = append(out, scope{d.Path, slices.Clone(domains.Nodes(d))})
		}
	}
	widest := 0 // outermost depth to try
	bound := require.Name != "" && require.Depth != model.NodeDepth
	if bound {
		widest = require.Depth
	}
	if len(m.ask.Beside) > 0 {
		// Repair: the domains of those who run, from the tightest they share.
		if require.Name != "" && require.Depth == model.NodeDepth {
			return []scope{{string(m.ask.Beside[0]), m.ask.Beside[:1]}}
		}
		if common, ok := domains.Common(m.ask.Beside...); ok {
			for depth := common.Depth; depth >= widest; depth-- {
				if d, ok := domains.Of(m.ask.Beside[0], depth); ok {
					add(d)
				}
			}
		}
		if bound {
			return out
		}
		return append(out, scope{})
	}
	if require.Name != "" && require.Depth == model.NodeDepth {
		return m.singleNodes()
	}
	// How much whole GPUs are needed is known only of whole GPUs; shares may be
	// crowded on few, so any domain may do.
	need, vendor := int64(0), model.NVIDIA
	for _, role := range m.ask.Roles {
		vendor = role.Request.Vendor
		if role.Request.Kind() == model.Whole {
			need += int64(role.Min * role.Request.Count())
		}
	}
	if resource := ledger.Resource(vendor); resource >= 0 {
		for d := range domains.Tightest(widest, resource, need) {
			if add(d); len(out) == maxDomains {
				break
			}
		}
	}
	if bound {
		m.failure.Domains = len(out)
		return out
	}
	return append(out, scope{})
}

// singleNodes are the nodes that may take the whole gang, best first.
func (m *maker) singleNodes() []scope {
	if len(m.ask.Roles) == 0 {
		return nil
	}
	first := m.order[0]
	want := Together(m.ask.Roles[first].Request, m.ask.Roles[first].Min)
	var out []scope
	for c := range m.p.Candidates(want, m.ask.Weights) {
		if out = append(out, scope{string(c.Node), []model.NodeID{c.Node}}); len(out) == maxDomains {
			break
		}
	}
	m.failure.Domains = len(out)
	return out
}
