package arbiter

// Account is a queue in numbers.
type Account struct {
	Queue string
	// Parent is the queue above; empty for Root.
	Parent string
	Weight int64
	// Closed: nothing of it starts, because it is closed or one above it is.
	Closed bool
	// Lines are the resources of which the queue has, wants or was given something, by name.
	Lines []AccountLine
}

// AccountLine is one resource of a queue, queues below included.
type AccountLine struct {
	Resource Resource
	// Guarantee and Capability are what the queue was given; -1 where it was given nothing.
	Guarantee, Capability int64
	// Share is what it is entitled to now, Used what its jobs are charged, Wanted what they
	// would be charged if all could start.
	Share, Used, Wanted int64
	// Owed is its balance in amounts times milliseconds: see balance.go.
	Owed int64
}

// Accounts returns all queues, parents before children. Cost: queues times resources.
func (t *Tree) Accounts() []Account {
	q := &t.queues
	q.refresh()
	out := make([]Account, len(q.nodes))
	for i, n := range q.nodes {
		a := Account{Queue: n.Name, Weight: n.weight(), Closed: n.shut}
		if n.parent != nil {
			a.Parent = n.parent.Name
		}
		for r, name := range q.dict.names {
			line := AccountLine{
				Resource: name, Guarantee: given(n.Guarantee, name), Capability: given(n.Capability, name),
				Share: n.share[r], Used: n.used[r], Wanted: n.wanted(r), Owed: n.owed[r],
			}
			if line.Guarantee < 0 && line.Capability < 0 && line.Share == 0 && line.Used == 0 && line.Wanted == 0 && line.Owed == 0 {
				continue
			}
			a.Lines = append(a.Lines, line)
		}
		out[i] = a
	}
	return out
}

// given is an amount of a map, or -1.
func given(m map[Resource]int64, r Resource) int64 {
	if v, ok := m[r]; ok {
		return v
	}
	return -1
}
