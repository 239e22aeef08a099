package arbiter

// Status is a queue in numbers, for tests. It shares no
// memory with the tree.
type Status struct {
	Queue, Parent string
	// Used is what its jobs are charged, Want what they would use if they could.
	Used, Want map[Resource]int64
	// Share is what it is entitled to now.
	Share            map[Resource]int64
	Waiting, Running int
	Closed           bool
}

// Status returns all queues, parents before children, siblings by name. Those
// that have children count what is below them. Resources that no limit names are in it
// as well. Cost: queues and jobs.
func (t *Tree) Status() []Status {
	t.queues.refresh()
	out := make([]Status, len(t.queues.nodes))
	for i, n := range t.queues.nodes {
		out[i] = Status{
			Queue: n.Name, Used: t.queues.dict.amounts(n.used).Map(), Want: t.queues.dict.amounts(n.want).Map(), Share: t.queues.dict.amounts(n.share).Map(),
			Waiting: n.waiting, Running: n.running, Closed: n.Closed,
		}
		if n.parent != nil {
			out[i].Parent = n.parent.Name
		}
	}
	for _, e := range t.jobs.byID {
		t.addUnnumbered(out, e)
	}
	for i := len(out) - 1; i > 0; i-- {
		p := t.queues.nodes[i].parent.number
		out[p].Waiting += out[i].Waiting
		out[p].Running += out[i].Running
	}
	return out
}

// addUnnumbered adds what a job uses and wants of resources that are in no vector.
func (t *Tree) addUnnumbered(out []Status, e *entry) {
	for n := t.queues.counted(e); n != nil; n = n.parent {
		for _, x := range e.charged {
			if _, ok := t.queues.dict.number[x.Resource]; !ok {
				out[n.number].Used[x.Resource] += x.Value
			}
		}
		want := e.want
		switch {
		case e.node == nil:
			want = nil
		case n != e.node && e.node.shut:
			want = e.charged // what waits in a closed queue cannot start
		}
		for _, x := range want {
			if _, ok := t.queues.dict.number[x.Resource]; !ok {
				out[n.number].Want[x.Resource] += x.Value
			}
		}
	}
}

// Share returns what a queue is entitled to now; nil for an unknown queue.
func (t *Tree) Share(queue string) Amounts {
	return t.status(queue, func(s *Status) map[Resource]int64 { return s.Share })
}

// Used returns what a queue's jobs are charged; nil for an unknown queue.
func (t *Tree) Used(queue string) Amounts {
	return t.status(queue, func(s *Status) map[Resource]int64 { return s.Used })
}

func (t *Tree) status(queue string, field func(*Status) map[Resource]int64) Amounts {
	if n := t.queues.byName[queue]; n != nil {
		return NewAmounts(field(&t.Status()[n.number]))
	}
	return nil
}
