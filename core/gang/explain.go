package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// explain says why the next member could not be placed, by repeating the best attempt.
// If a level is required and no domain of it has enough free devices, there was no
// attempt, and the failure's Level and Domains say so.
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

// firstShort is the first role that must be placed, in the order of placing.
func (m *maker) firstShort() int {
	for _, role := range m.order {
		if m.wanted(role) > 0 {
			return role
		}
	}
	return m.order[0]
}

// tally counts why the nodes of the scope, or all nodes, reject a member of a role.
// Devices are judged once per bucket of equal nodes.
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

// count adds one node's answer. Permanent reasons about devices go before the filters'
// reasons, and those before what other pods hold: the decisive cause is reported.
func (f *filling) count(t *explain.Tally, role int, v ledger.View, devices *explain.Refusal) {
	r := f.ask.Roles[role].Request
	switch rules := f.refusal(role, v.Node.ID); {
	case devices != nil && devices.Code.Permanent():
		t.AddNode(*devices, v.Node.ID)
	case rules != nil && rules.Code != explain.Neighbor && rules.Code != explain.Filtered:
		t.AddNode(*rules, v.Node.ID)
	case devices != nil:
		t.AddNode(*devices, v.Node.ID)
	case !v.Covers(r):
		t.AddNode(hostRefusal(v.Shortages(r)), v.Node.ID)
	case rules != nil:
		t.AddNode(*rules, v.Node.ID)
	default:
		t.AddFit(1)
	}
}

// hostRefusal is the first shortage as a refusal, preferring one that remains when all
// pods have ended.
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
