package engine

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
	job := e.job(k)
	if len(k.placed) > 0 {
		_ = e.tree.Charge(job, arbiter.NewAmounts(e.used(k))) // amounts of what runs are never negative
		return
	}
	_ = e.tree.Submit(job) // nothing in it is negative or without a name
}

// job is a gang as the arbiter knows it.
func (e *Engine) job(k *known) arbiter.Job {
	least, most := e.bounds(k)
	return arbiter.Job{
		ID: arbiter.JobID(k.ID), Queue: k.Queue, Namespace: k.Namespace, User: k.User, Priority: k.Priority, Submitted: k.Submitted,
		Class: string(k.shape), ExpectedRuntime: k.Runtime, Preemptible: k.Preemptible,
		Demand: arbiter.NewAmounts(least), Extra: arbiter.NewAmounts(most),
	}
}

// bounds are the amounts of the minimum and of what could be used besides. Which
// members make up the minimum beyond the roles' own is open; the first roles' count.
func (e *Engine) bounds(k *known) (least, extra map[arbiter.Resource]int64) {
	least, extra = map[arbiter.Resource]int64{}, map[arbiter.Resource]int64{}
	roles := make([]gang.Role, len(k.Roles))
	for i, r := range k.Roles {
		roles[i] = gang.Role{Members: r.Members, Min: r.Min}
	}
	counts := gang.Spread(k.Min, roles)
	for i, r := range k.Roles {
		e.add(least, r.Request, counts[i])
		e.add(extra, r.Request, len(r.Members)-counts[i])
	}
	return least, extra
}

func (e *Engine) add(to map[arbiter.Resource]int64, r *model.Request, count int) {
	if count <= 0 {
		return
	}
	n := int64(count)
	to[CPU] += n * r.Host.CPU
	to[Memory] += n * int64(r.Host.Memory.MiB())
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
// many as its queue and namespace allow.
func (e *Engine) asked(k *known, least int) *gang.Ask {
	ask := k.ask(least)
	most := 0
	for _, r := range ask.Roles {
		most += len(r.Members)
	}
	if len(k.placed) > 0 || least < most { // else it is its demand, which the arbiter judged
		ask.Allow = func(counts []int) bool { return e.allows(k, counts).Code == 0 }
	}
	return ask
}

// allows says what keeps a gang from having so many more members of each role.
func (e *Engine) allows(k *known, counts []int) arbiter.Wait {
	sum := map[arbiter.Resource]int64{}
	for i, n := range counts {
		e.add(sum, k.Roles[i].Request, n)
	}
	return e.tree.May(arbiter.JobID(k.ID), arbiter.NewAmounts(sum))
}

// wait says what keeps a gang from having at least so many more members.
func (e *Engine) wait(k *known, least int) arbiter.Wait {
	if len(k.placed) == 0 {
		return e.tree.Why(arbiter.JobID(k.ID))
	}
	return e.allows(k, gang.Spread(least, k.ask(least).Roles))
}
