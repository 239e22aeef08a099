package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Audit checks every invariant the ledger promises by computing it again from
// the claims, and names the first that is broken. Tests and doctors call it;
// its cost is that of the cluster.
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
			if n.of[i]&seen&^n.shared != 0 {
				return fmt.Errorf("node %q: holder %q holds a device somebody else holds", id, c.Holder)
			}
			if n.of[i].Count() > c.Count+len(c.Parts) {
				return fmt.Errorf("node %q: holder %q holds %d devices, claims %d", id, c.Holder, n.of[i].Count(), c.Count+len(c.Parts))
			}
			seen |= n.of[i]
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
	if l.journal.open == 0 && len(l.journal.entries) != 0 {
		return fmt.Errorf("journal: %d entries while no trial is open", len(l.journal.entries))
	}
	return nil
}

// Debts returns the nodes whose claims exceed their devices, with how many
// devices are missing: devices vanished, or records contradict each other.
func (l *Ledger) Debts() map[model.NodeID]int {
	out := map[model.NodeID]int{}
	for id, n := range l.nodes {
		for _, d := range n.debt {
			if d > 0 {
				out[id] += int(d)
			}
		}
	}
	return out
}

// Assumed returns the holders whose claims are promises still, sorted.
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
			fmt.Fprintf(&b, "%s %d devices, held %s, room %v, debt %v\n", id, len(n.inv.Devices), indexes(n.inv, n.held), n.room, n.debt)
		}
		for i, c := range n.claims {
			state := "holds"
			if c.Assumed {
				state = "assumes"
			}
			var held string
			if n.inv != nil {
				held = indexes(n.inv, n.of[i])
			}
			fmt.Fprintf(&b, "  %s %s %d %s: %s (since %d, priority %d, recorded %v %v)\n", c.Holder, state, c.Count, c.Vendor, held, c.Since, c.Priority, c.Devices, c.Parts)
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
