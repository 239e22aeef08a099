package ledger

import (
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
	inBuckets := 0
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		if n.inv == nil {
			continue
		}
		var seen model.Mask
		for i, c := range n.claims {
			if l.holders[c.Holder] != n {
				return fmt.Errorf("node %q: holder %q is not indexed to it", id, c.Holder)
			}
			if n.byClaim[i]&seen&^n.shared != 0 {
				return fmt.Errorf("node %q: holder %q holds a device that another claim holds", id, c.Holder)
			}
			if n.byClaim[i].Count() > c.Count+len(c.Parts) {
				return fmt.Errorf("node %q: holder %q holds %d devices, claims %d", id, c.Holder, n.byClaim[i].Count(), c.Count+len(c.Parts))
			}
			seen |= n.byClaim[i]
		}
		for slot, u := range n.usage {
			d := &n.inv.Devices[slot]
			switch {
			case u.Memory > d.Memory || u.Milli > model.FullMilli || d.Tenants > 0 && u.Tenants > d.Tenants && u.Cut.Used == 0:
				return fmt.Errorf("node %q: device %d is over-committed: %+v", id, d.Index, u)
			case u.Cut.Used != 0 && (u.Memory > 0 || u.Milli > 0):
				return fmt.Errorf("node %q: device %d is cut and shared: %+v", id, d.Index, u)
			case n.shared.Has(slot) != (u.Tenants > 0):
				return fmt.Errorf("node %q: device %d has %d tenants, shared is %v", id, d.Index, u.Tenants, n.shared.Has(slot))
			}
		}
		if seen != n.held {
			return fmt.Errorf("node %q: held devices %b are not the sum of claims %b", id, n.held, seen)
		}
		b := l.index.buckets[keyOf(n)]
		if b == nil || !slices.Contains(b.nodes, n) {
			return fmt.Errorf("node %q: not in its bucket", id)
		}
		inBuckets++
	}
	if got := l.index.size(); got != inBuckets {
		return fmt.Errorf("index: %d entries for %d nodes", got, inBuckets)
	}
	if err := l.auditCounts(); err != nil {
		return err
	}
	if err := l.auditDomains(); err != nil {
		return err
	}
	if l.journal.open == 0 && len(l.journal.entries) != 0 {
		return fmt.Errorf("journal: %d entries while no trial is open", len(l.journal.entries))
	}
	return nil
}

// auditCounts checks the counters that are updated incrementally.
func (l *Ledger) auditCounts() error {
	kinds, owners, publishers := map[string]int{}, 0, map[string]int{}
	excess := Excess{Absent: l.excess.Absent}
	for _, n := range l.nodes {
		if n.host != hostOf(n.claims) {
			return fmt.Errorf("node %q: %+v in use, claims sum up to %+v", n.id, n.host, hostOf(n.claims))
		}
		if n.inv == nil {
			continue
		}
		if want := extrasBeside(n.inv, n.claims); !slices.Equal(n.extras, want) {
			return fmt.Errorf("node %q: %v left of %v, claims leave %v", n.id, n.extras, n.inv.Extras, want)
		}
		if n.kind != l.kinds[n.inv.KindKey()] {
			return fmt.Errorf("node %q: not of its kind", n.id)
		}
		kinds[n.kind.key]++
		excess.add(n.excess(), +1)
		for _, e := range n.inv.Extras {
			publishers[e.Name]++
		}
		for _, d := range n.inv.Devices {
			if d.UUID == "" {
				continue
			}
			owners++
			if !slices.Contains(l.owners[d.UUID], n.id) {
				return fmt.Errorf("node %q: does not own its device %q", n.id, d.UUID)
			}
		}
	}
	for _, k := range l.kinds {
		if k.nodes != kinds[k.key] || k.nodes == 0 {
			return fmt.Errorf("a kind counts %d nodes, has %d", k.nodes, kinds[k.key])
		}
	}
	if excess != l.excess {
		return fmt.Errorf("%+v beyond what nodes have, want %+v", l.excess, excess)
	}
	if !maps.Equal(publishers, l.publishers) {
		return fmt.Errorf("publishers %v, want %v", l.publishers, publishers)
	}
	listed := 0
	for _, ids := range l.owners {
		listed += len(ids)
	}
	if listed != owners {
		return fmt.Errorf("owners %d, want %d", listed, owners)
	}
	return l.auditLabels()
}

// auditLabels counts holders' labels and rules again.
func (l *Ledger) auditLabels() error {
	again, measured := newLabels(), 0
	for _, n := range l.nodes {
		for i := range n.claims {
			again.replace(n, nil, &n.claims[i])
		}
		if n.telemetry != nil {
			measured++
		}
	}
	sameRule := func(a, b *antiRule) bool { return a.holders == b.holders && a.rule.Equal(b.rule) }
	switch {
	case !maps.EqualFunc(again.at, l.labels.at, maps.Equal):
		return fmt.Errorf("labels: %v, want %v", l.labels.at, again.at)
	case !maps.EqualFunc(again.anti, l.labels.anti, sameRule):
		return fmt.Errorf("labels: %d anti-affinity rules, want %d", len(l.labels.anti), len(again.anti))
	case measured != l.measured:
		return fmt.Errorf("telemetry: of %d nodes, want %d", l.measured, measured)
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
