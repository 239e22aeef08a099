package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// explain says why the next member has no place, by making the attempt again that
// came furthest. Where none of several had one in any domain, that says it all.
func (m *maker) explain() {
	m.failure.Placed = max(m.failure.Placed, 0)
	switch {
	case m.ask.Terse || len(m.order) == 0:
	case m.failure.Placed == 0 && (m.failure.Need == 1 || m.ask.Require.Name == "" || m.failure.Domains > 0):
		m.failure.Nodes = newFilling(m, m.furthest).tally(m.firstShort())
	case m.failure.Placed > 0:
		m.fill(m.furthest, func(f *filling, role int) { m.failure.Nodes = f.tally(max(role, 0)) })
	}
}

// firstShort is the first role of which members must be placed, the largest first.
func (m *maker) firstShort() int {
	for _, role := range m.order {
		if m.wanted(role) > 0 {
			return role
		}
	}
	return m.order[0]
}

// tally asks the nodes of the scope, or all, why they do not take a member of a role.
// What devices say is asked once for nodes that are alike.
func (f *filling) tally(role int) explain.Tally {
	var t explain.Tally
	r := f.ask.Roles[role].Request
	if f.scope.nodes != nil {
		for _, id := range f.scope.nodes {
			if v, there := f.l.View(id); there {
				f.count(&t, role, v, place.Judge(r, v))
			}
		}
		return t
	}
	for b := range f.l.Buckets() { // counts do not depend on the order
		alike := place.Alike(f.l, r)
		var refusal *explain.Refusal
		if first, ok := b.View(nil); ok && alike {
			refusal = place.Judge(r, first)
		}
		for id := range b.Nodes() {
			v, _ := f.l.View(id)
			if !alike {
				refusal = place.Judge(r, v)
			}
			f.count(&t, role, v, refusal)
		}
	}
	return t
}

// count adds one node's answer: what can never change about its devices comes before
// Kubernetes' rules, those before what other pods hold.
func (f *filling) count(t *explain.Tally, role int, v ledger.View, devices *explain.Refusal) {
	r := f.ask.Roles[role].Request
	switch rules := f.refusal(role, v.Node.ID); {
	case devices != nil && devices.Code.Permanent():
		t.Add(*devices, 1)
	case rules != nil && rules.Code != explain.Neighbor && rules.Code != explain.Filtered:
		t.Add(*rules, 1)
	case devices != nil:
		t.Add(*devices, 1)
	case !v.Covers(r):
		t.Add(hostRefusal(v.Shortages(r)), 1)
	case rules != nil:
		t.Add(*rules, 1)
	default:
		t.AddFit(1)
	}
}

// hostRefusal is the first shortage as a refusal; one that no pod's end cures goes
// before the others.
func hostRefusal(short []model.Shortage) explain.Refusal {
	at := max(0, slices.IndexFunc(short, func(s model.Shortage) bool { return s.Need > s.Total }))
	s := short[at]
	out := explain.Refusal{Code: explain.BusyHost, Need: s.Need, Best: max(0, s.Free), Detail: s.Name}
	if s.Need > s.Total {
		out.Code, out.Best = explain.SmallHost, s.Total
	}
	if s.Name == model.MemoryName {
		const mib = 1 << 20
		out.Need, out.Best = (out.Need+mib-1)/mib, out.Best/mib
	}
	return out
}
