package arbiter

import (
	"cmp"
	"fmt"
	"slices"
)

// Audit counts again what the parts of a tree keep, and names the first that is wrong.
func (t *Tree) Audit() error {
	return cmp.Or(t.jobs.audit(&t.queues.dict), t.queues.audit(&t.jobs))
}

// audit checks the invariant of jobs.
func (x *jobs) audit(d *dictionary) error {
	classes, namespaces, used := map[*class]int{}, map[*namespace]int{}, map[*namespace]vector{}
	for id, e := range x.byID {
		classes[e.class]++
		namespaces[e.namespace]++
		used[e.namespace] = used[e.namespace].add(d.needs(e.charged), 1, len(d.names))
		if e.ID != id || x.classes[e.key()] != e.class || x.namespaces[e.Namespace] != e.namespace {
			return fmt.Errorf("job %q: not under its ID, class or namespace", id)
		}
	}
	for _, c := range x.classes {
		if c.jobs != classes[c] || c.jobs == 0 {
			return fmt.Errorf("a class counts %d jobs, has %d", c.jobs, classes[c])
		}
	}
	for name, s := range x.namespaces {
		for r := range s.used {
			if s.used[r] != used[s].at(r) {
				return fmt.Errorf("namespace %q: uses %v, want %v", name, s.used, used[s])
			}
		}
		if s.jobs != namespaces[s] || s.jobs == 0 && len(s.quota) == 0 {
			return fmt.Errorf("namespace %q: counts %d jobs, has %d", name, s.jobs, namespaces[s])
		}
	}
	return nil
}

// audit checks the invariants of a hierarchy and of its nodes.
func (h *hierarchy) audit(x *jobs) error {
	width := len(h.dict.names)
	waiting, running := map[*node]int{}, map[*node]int{}
	used, want := map[*node]vector{}, map[*node]vector{}
	for _, e := range x.byID {
		switch {
		case e.runs:
			running[h.counted(e)]++
		case e.node != nil:
			waiting[e.node]++
		}
		if e.node != nil {
			want[e.node] = want[e.node].add(h.dict.needs(e.want), 1, width)
		}
		for n := h.counted(e); n != nil; n = n.parent {
			used[n] = used[n].add(h.dict.needs(e.charged), 1, width)
		}
	}
	for i, n := range slices.Backward(h.nodes) {
		if n.number != i || h.byName[n.Name] != n || n.waiting != waiting[n] || n.running != running[n] {
			return fmt.Errorf("queue %q: %d wait and %d run, want %d and %d", n.Name, n.waiting, n.running, waiting[n], running[n])
		}
		for r := range width {
			within := used[n].at(r)
			for _, c := range n.children {
				within += c.booked[r] - c.used[r]
			}
			switch {
			case n.used[r] != used[n].at(r) || n.within[r] != within || n.booked[r] != max(n.floor[r], within):
				return fmt.Errorf("queue %q: %d used, %d within, %d booked; want %d and %d", n.Name, n.used[r], n.within[r], n.booked[r], used[n].at(r), within)
			case n.leaf() && n.want[r] != want[n].at(r):
				return fmt.Errorf("queue %q: wants %d, want %d", n.Name, n.want[r], want[n].at(r))
			}
		}
	}
	return nil
}

// audit checks the invariant of a pass that is under way.
func (p *pass) audit() error {
	for _, n := range p.queues.nodes {
		for i, c := range n.position.offering {
			if c.position.index != i || c.position.next == nil {
				return fmt.Errorf("queue %q: at %d of its parent's heap, thinks %d", c.Name, i, c.position.index)
			}
		}
		if n.leaf() && n.position.next != nil && !slices.Contains(p.active, n) {
			return fmt.Errorf("queue %q: has a job to offer and is not active", n.Name)
		}
	}
	return nil
}

// AuditPass checks the pass that is under way.
func (t *Tree) AuditPass() error { return t.pass.audit() }
