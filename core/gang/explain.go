package gang

import (
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
	case m.failure.Placed == 0:
		m.failure.nowhere(newFilling(m, m.widest()).tally(m.firstShort(), m.ask.Require))
	case m.failure.Placed > 0:
		m.fill(m.furthest, func(f *filling, role int) { m.failure.Nodes = f.tally(max(role, 0), m.ask.Require) })
	}
}

// nowhere takes down why no member at all has a place. If a member alone would have one, but
// not in a domain with room for all, the required level is what is in the way: then no
// domain does, and the nodes' causes are of no use.
func (f *Failure) nowhere(nodes explain.Tally) {
	if f.Level != "" && max(f.Need, f.SubNeed) > 1 && nodes.Fit() > 0 {
		f.Domains, f.Nodes = 0, explain.Tally{}
		return
	}
	f.Nodes = nodes
}

// widest is all nodes that the gang could use if they had room: those of which the attempts
// were parts.
func (m *maker) widest() scope {
	require, beside := m.ask.Require, m.beside()
	switch {
	case m.within.nodes != nil:
		return m.within
	case m.ask.Within != nil:
		return scope{nodes: m.ask.Within}
	case require.Name == "" || len(beside) == 0:
	case require.Depth == model.NodeDepth:
		return scope{string(beside[0]), beside[:1]}
	default:
		if d, ok := m.l.Domains().Of(beside[0], require.Depth); ok {
			return scope{d.Path, m.l.Domains().Nodes(d)}
		}
	}
	return scope{}
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

// tally counts why the nodes of the scope, or all nodes, reject a member of a role. level is
// required of all members: a node that is in no domain of it takes none.
func (f *filling) tally(role int, level model.Level) explain.Tally {
	r := f.ask.Roles[role].Request
	rules := func(id model.NodeID) *explain.Refusal {
		if refusal := f.refusal(role, id); refusal != nil || level.Name == "" || level.Depth == model.NodeDepth {
			return refusal
		}
		if _, in := f.l.Domains().Of(id, level.Depth); !in {
			return &explain.Refusal{Code: explain.WrongDomain, Need: int64(r.Distinct()), Detail: level.Labelled()}
		}
		return nil
	}
	if f.scope.nodes == nil {
		return Tally(f.l, r, rules)
	}
	var t explain.Tally
	for _, id := range f.scope.nodes {
		if v, there := f.l.View(id); there {
			count(&t, r, v, place.Judge(r, v), rules(id))
		}
	}
	return t
}

// Tally counts why nodes reject a request, as the ledger is now; rules says what is not a
// question of devices and amounts. Devices are judged once per bucket of equal nodes.
func Tally(l *ledger.Ledger, r *model.Request, rules func(model.NodeID) *explain.Refusal) explain.Tally {
	var t explain.Tally
	alike := place.Alike(l, r)
	for b := range l.Buckets() { // counts do not depend on the order
		var refusal *explain.Refusal
		if first, ok := b.View(nil); ok && alike {
			refusal = place.Judge(r, first)
		}
		for v := range b.Views() {
			if !alike {
				refusal = place.Judge(r, v)
			}
			count(&t, r, v, refusal, rules(v.Node.ID))
		}
	}
	return t
}

// count adds one node's answer. Permanent reasons about devices go before the filters'
// reasons, and those before what other pods hold: the decisive cause is reported.
func count(t *explain.Tally, r *model.Request, v ledger.View, devices, rules *explain.Refusal) {
	switch {
	case devices != nil && devices.Code.Permanent():
		t.AddNode(*devices, v.Node.ID)
	case rules != nil && rules.Code != explain.Neighbor && rules.Code != explain.Filtered:
		t.AddNode(*rules, v.Node.ID)
	case devices != nil:
		t.AddNode(*devices, v.Node.ID)
	default:
		switch short, is := v.Shortage(r); {
		case is:
			t.AddNode(hostRefusal(short), v.Node.ID)
		case rules != nil:
			t.AddNode(*rules, v.Node.ID)
		default:
			t.AddFit(1)
		}
	}
}

// hostRefusal is a shortage as a refusal.
func hostRefusal(s model.Shortage) explain.Refusal {
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
