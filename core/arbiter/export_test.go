package arbiter

// MayReclaim says whether amounts may move from one leaf to another: the one that
// gives is reclaimable and keeps its share of each, the one that takes stays
// within its own. If so, then after the move nothing of the same resources may
// move back.
func (t *Tree) MayReclaim(from, to string, amounts Amounts) bool {
	t.queues.refresh()
	a, b := t.queues.byName[from], t.queues.byName[to]
	needs := t.queues.divided(t.queues.dict.needs(amounts))
	if a == nil || b == nil || a == b || !a.leaf() || !b.leaf() || len(needs) == 0 {
		return false
	}
	top := meet(a, b)
	for n := a; n != top; n = n.parent {
		for _, d := range needs {
			if !n.Reclaimable || n.held(d.resource)-d.amount < max(n.share[d.resource], n.floor[d.resource]) {
				return false
			}
		}
	}
	return t.queues.claims(b, top, needs)
}

// Size returns how many jobs wait, those in no queue included, and how many run.
func (t *Tree) Size() (waiting, running int) {
	for _, n := range t.queues.nodes {
		running += n.running
	}
	return len(t.jobs.byID) - running, running
}

// Charged returns what a job is charged, nil when it waits.
func (t *Tree) Charged(id JobID) Amounts {
	if e := t.jobs.byID[id]; e != nil && e.runs {
		return append(Amounts{}, e.charged...)
	}
	return nil
}

// Evict moves a running job back to those that wait, as the caller does it.
func (t *Tree) Evict(id JobID) error {
	j, runs := t.Job(id)
	if !runs || t.Charged(id) == nil {
		return nil
	}
	t.Remove(id)
	return t.Submit(j)
}

// Sizes returns how many of what the tree keeps in maps and vectors there is.
func (t *Tree) Sizes() (resources, namespaces, classes, users int) {
	for _, n := range t.queues.nodes {
		if n.jobs != nil {
			users += len(n.jobs.turns.users)
		}
	}
	return len(t.queues.dict.names), len(t.jobs.namespaces), len(t.jobs.classes), users
}

// IdleUsers is how many users without waiting jobs a queue remembers at most.
const IdleUsers = 2 * idleUsers
