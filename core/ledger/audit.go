package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Audit recomputes from the claims every invariant that the ledger promises, and
// reports the first that is broken. Its cost is that of the whole cluster; tests and
// the consistency check call it.
func (l *Ledger) Audit() error {
	excess, measured := Excess{Absent: l.excess.Absent}, 0
	var present []*node
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		if n.telemetry != nil {
			measured++
		}
		if n.inv != nil {
			present = append(present, n)
			excess.add(n.excess(), +1)
		}
		if err := n.audit(l.holders); err != nil {
			return fmt.Errorf("node %q: %w", id, err)
		}
	}
	switch {
	case excess != l.excess:
		return fmt.Errorf("%+v beyond what nodes have, want %+v", l.excess, excess)
	case measured != l.measured:
		return fmt.Errorf("telemetry: of %d nodes, want %d", l.measured, measured)
	case l.journal.open == 0 && len(l.journal.entries) != 0:
		return fmt.Errorf("journal: %d entries while no trial is open", len(l.journal.entries))
	}
	return cmp.Or(
		l.index.audit(present), l.kinds.audit(present), l.owners.audit(present), l.publishers.audit(present),
		l.labels.audit(maps.Values(l.nodes)), auditDomains(l.domains, present),
	)
}

// audit recomputes what the entry keeps of its claims.
func (n *node) audit(holders map[model.HolderID]*node) error {
	for _, c := range n.claims {
		if holders[c.Holder] != n {
			return fmt.Errorf("holder %q is not indexed to it", c.Holder)
		}
	}
	if n.host != hostOf(n.claims) {
		return fmt.Errorf("%+v in use, claims sum up to %+v", n.host, hostOf(n.claims))
	}
	if n.inv == nil {
		return nil
	}
	if want := extrasBeside(n.inv, n.claims); !slices.Equal(n.extras, want) {
		return fmt.Errorf("%v left of %v, claims leave %v", n.extras, n.inv.Extras, want)
	}
	var seen model.Mask
	for i, c := range n.claims {
		if n.byClaim[i]&seen&^n.shared != 0 {
			return fmt.Errorf("holder %q holds a device that another claim holds", c.Holder)
		}
		if n.byClaim[i].Count() > c.Count+len(c.Parts) {
			return fmt.Errorf("holder %q holds %d devices, claims %d", c.Holder, n.byClaim[i].Count(), c.Count+len(c.Parts))
		}
		seen |= n.byClaim[i]
	}
	for slot, u := range n.usage {
		d := &n.inv.Devices[slot]
		switch {
		case u.Memory > d.Memory || u.Milli > model.FullMilli || d.Tenants > 0 && u.Tenants > d.Tenants && u.Cut.Used == 0:
			return fmt.Errorf("device %d is over-committed: %+v", d.Index, u)
		case u.Cut.Used != 0 && (u.Memory > 0 || u.Milli > 0):
			return fmt.Errorf("device %d is cut and shared: %+v", d.Index, u)
		case n.shared.Has(slot) != (u.Tenants > 0):
			return fmt.Errorf("device %d has %d tenants, shared is %v", d.Index, u.Tenants, n.shared.Has(slot))
		}
	}
	if seen != n.held {
		return fmt.Errorf("held devices %b are not the sum of claims %b", n.held, seen)
	}
	return nil
}

// Debt is how many devices and parts claimed on a node could not be assigned to a
// device: devices vanished, or records contradict each other.
func (l *Ledger) Debt(id model.NodeID) int {
	n := l.nodes[id]
	if n == nil {
		return 0
	}
	sum := 0
	for _, d := range n.debt {
		sum += int(d)
	}
	return sum
}

// Assumed returns the holders with claims that are not yet confirmed by the API,
// sorted.
func (l *Ledger) Assumed() []model.HolderID {
	var out []model.HolderID
	for h := range l.holders {
		if _, c, _ := l.Claim(h); c.Assumed {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return out
}

// String is the whole state in canonical text: equal states, equal text.
func (l *Ledger) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		if n.inv == nil {
			fmt.Fprintf(&b, "%s (gone)\n", id)
		} else {
			fmt.Fprintf(&b, "%s %d devices, held %s, room %v, debt %v, in %q, NUMA %s\n", id, len(n.inv.Devices), indexes(n.inv, n.held), n.room, n.debt, n.inv.Domains, n.inv.NUMA)
		}
		for i, c := range n.claims {
			state := "holds"
			if c.Assumed {
				state = "assumes"
			}
			var held string
			if n.inv != nil {
				held = indexes(n.inv, n.byClaim[i])
			}
			fmt.Fprintf(&b, "  %s %s %d %s: %s (since %d, priority %d, recorded %v %v, labels %v, apart %v, host %v, extras %v)\n", c.Holder, state, c.Count, c.Vendor, held, c.Since, c.Priority, c.Devices, c.Parts, c.Labels, c.Apart, c.Host, c.Extras)
		}
		if n.usage != nil {
			fmt.Fprintf(&b, "  shared %s: %s\n", indexes(n.inv, n.shared), spellUsage(n.usage))
		}
	}
	return b.String()
}

// indexes spells a set of devices by index.
func indexes(n *model.Node, set model.Mask) string {
	out := []string{}
	for slot := range set.Slots() {
		out = append(out, fmt.Sprint(n.Devices[slot].Index))
	}
	return "[" + strings.Join(out, ",") + "]"
}
