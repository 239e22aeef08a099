package engine

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
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
		_ = e.tree.Charge(job, k.used) // amounts of what runs are never negative
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
	if k.tree != nil {
		counts = k.least(0, true)
	}
	for i, r := range k.Roles {
		e.add(least, &k.Roles[i], counts[i])
		e.add(extra, &k.Roles[i], len(r.Members)-counts[i])
	}
	return least, extra
}

// add adds what so many members of a role are charged that have no place yet. Of a share
// of memory that is the least it can turn out to be; what the members really take is
// known when they have a place (chargeOf), and checked before they start.
func (e *Engine) add(to map[arbiter.Resource]int64, role *Role, count int) {
	if count <= 0 {
		return
	}
	n, r := int64(count), role.Request
	to[CPU] += n * r.Host.CPU
	to[Memory] += n * int64(r.Host.Memory.MiB())
	for _, a := range role.Charge {
		to[a.Resource] += n * a.Value
	}
	if r.Vendor != "" {
		milli := n * e.planner.Demand(r)
		to[GPU(r.Vendor)] += milli
		if len(r.UseModels) == 1 {
			to[Model(r.UseModels[0].Name())] += milli
		}
	}
}

// chargeOf is what a member is charged at its place: by the devices it holds there, or on a
// node that is not there by what it asks for.
func (e *Engine) chargeOf(h model.HolderID, role *Role) arbiter.Amounts {
	sum := map[arbiter.Resource]int64{}
	node, claim, held := e.ledger.Claim(h)
	v, there := e.ledger.View(node)
	if !held || !there || claim.Vendor == "" {
		e.add(sum, role, 1)
		return arbiter.NewAmounts(sum)
	}
	sum[CPU], sum[Memory] = claim.Host.CPU, int64(claim.Host.Memory.MiB())
	for _, a := range role.Charge {
		sum[a.Resource] += a.Value
	}
	add := func(d *model.Device, milli int64) {
		sum[GPU(claim.Vendor)] += milli
		if d != nil && d.Model.Name() != "" {
			sum[Model(d.Model.Name())] += milli
		}
	}
	_, set := e.ledger.Held(h)
	whole := claim.Count
	if len(claim.Parts) == 0 {
		for slot := range set.Slots() {
			add(&v.Node.Devices[slot], model.FullMilli)
			whole--
		}
	}
	for ; whole > 0; whole-- {
		add(nil, model.FullMilli)
	}
	for _, p := range claim.Parts {
		var d *model.Device
		if slot := v.Node.Slot(p.Device.Index, p.Device.UUID); p.Known && slot >= 0 {
			d = &v.Node.Devices[slot]
		}
		add(d, int64(ledger.Fraction(p.Part, d)))
	}
	return arbiter.NewAmounts(sum)
}

// chargeOfPlan is what a plan's members are charged at their places.
func (e *Engine) chargeOfPlan(k *known, plan *gang.Plan) (sum arbiter.Amounts) {
	for _, p := range plan.Placements {
		sum = sum.Plus(e.chargeOf(p.Holder, &k.Roles[p.Role]))
	}
	return sum
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
		e.add(sum, &k.Roles[i], n)
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
