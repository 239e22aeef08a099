package dispatch

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// index keeps the lists of gangs that run.
func (e *Engine) index(k *known) {
	if k.rank != nil {
		if e.ranks[*k.rank]--; e.ranks[*k.rank] == 0 {
			delete(e.ranks, *k.rank)
		}
		k.rank = nil
	}
	delete(e.running, k.ID)
	delete(e.partial, k.ID)
	if len(k.placed) == 0 {
		return
	}
	e.running[k.ID] = k
	if len(k.placed) < k.exists || k.missing() > 0 {
		e.partial[k.ID] = k
	}
	if k.Preemptible {
		k.rank = &rank{k.queue(), k.Priority}
		e.ranks[*k.rank]++
	}
}

// recount tells the tree what a gang uses and wants.
func (e *Engine) recount(k *known) {
	e.index(k)
	id := arbiter.JobID(k.ID)
	e.tree.Remove(id)
	if len(k.placed) == 0 && !k.complete() {
		e.unreserve(func(r *reservation) bool { return r.id == k.ID })
		return
	}
	job := arbiter.Job{
		ID: id, Queue: k.Queue, Namespace: k.Namespace, User: k.User, Priority: k.Priority, Submitted: k.Submitted,
		Class: k.shape, ExpectedRuntime: k.Runtime, Preemptible: k.Preemptible,
	}
	least, most := e.bounds(k)
	job.Demand, job.Extra = e.tree.Amounts(least), e.tree.Amounts(most)
	if len(k.placed) > 0 {
		_ = e.tree.Charge(job, e.tree.Amounts(e.used(k))) // amounts of what runs are never negative
		return
	}
	_ = e.tree.Submit(job) // nothing in it is negative or without a name
}

// bounds are the amounts of the minimum and of what could be used besides. Which
// members make up the minimum beyond the roles' own is open; the first roles' count.
func (e *Engine) bounds(k *known) (least, extra map[arbiter.Resource]int64) {
	least, extra = map[arbiter.Resource]int64{}, map[arbiter.Resource]int64{}
	counts := make([]int, len(k.Roles))
	spread(counts, k.Min, func(i int) (int, int) { return k.Roles[i].Min, len(k.Roles[i].Members) })
	for i, r := range k.Roles {
		e.add(least, r.Request, counts[i])
		e.add(extra, r.Request, len(r.Members)-counts[i])
	}
	return least, extra
}

// spread divides a number of members over roles: to each its minimum, then to the
// first ones what they have.
func spread(counts []int, total int, role func(int) (least, has int)) {
	for i := range counts {
		counts[i], _ = role(i)
		total -= counts[i]
	}
	for i := range counts {
		if least, has := role(i); total > 0 && has > least {
			more := min(total, has-least)
			counts[i] += more
			total -= more
		}
	}
}

func (e *Engine) add(to map[arbiter.Resource]int64, r *model.Request, count int) {
	if count <= 0 {
		return
	}
	n := int64(count)
	to[CPU] += n * r.Host.CPU
	to[Memory] += n * int64(r.Host.Memory)
	if r.Vendor != "" {
		to[GPU(r.Vendor)] += n * e.planner.Demand(r)
		if len(r.UseModels) == 1 {
			to[Model(r.UseModels[0].Name())] += n * e.planner.Demand(r)
		}
	}
}

// used is what a gang's placed members use.
func (e *Engine) used(k *known) map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for role, n := range k.have {
		e.add(out, k.Roles[role].Request, n)
	}
	return out
}

// asked is what a gang asks for now, at least so many members, and of the others as
// many as its queue and namespace allow; or what does not allow the least.
func (e *Engine) asked(k *known, least int) (*gang.Ask, arbiter.Wait) {
	ask := k.ask(least)
	most := 0
	for _, r := range ask.Roles {
		most += len(r.Members)
	}
	if len(k.placed) == 0 && least >= most {
		return ask, arbiter.Wait{} // its demand, which the arbiter has judged
	}
	counts := make([]int, len(ask.Roles))
	may := func(total int) arbiter.Wait {
		spread(counts, total, func(i int) (int, int) { return ask.Roles[i].Min, len(ask.Roles[i].Members) })
		sum := map[arbiter.Resource]int64{}
		for i, r := range ask.Roles {
			e.add(sum, r.Request, counts[i])
		}
		return e.tree.May(arbiter.JobID(k.ID), e.tree.Amounts(sum))
	}
	if may(most).Code == 0 {
		return ask, arbiter.Wait{}
	}
	if len(k.placed) > 0 {
		if wait := may(least); wait.Code != 0 {
			return ask, wait
		}
	}
	low, high := least, most-1 // low is allowed
	for low < high {
		middle := (low + high + 1) / 2
		if may(middle).Code == 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	may(low)
	for i := range ask.Roles {
		ask.Roles[i].Members = ask.Roles[i].Members[:min(counts[i], len(ask.Roles[i].Members))]
	}
	return ask, arbiter.Wait{}
}
