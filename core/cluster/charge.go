package cluster

import (
	"strings"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// Resources by which gangs are counted. GPUs are counted in thousandths, memory in
// MiB, CPU in thousandths.
const (
	CPU    arbiter.Resource = "cpu"
	Memory arbiter.Resource = "memory"
)

// gpuPrefix begins the names of devices of a vendor.
const gpuPrefix = "gpu/"

// GPU is the resource of a vendor's devices.
func GPU(v model.Vendor) arbiter.Resource { return arbiter.Resource(gpuPrefix + string(v)) }

// Model is the resource of devices of one model.
func Model(name string) arbiter.Resource { return arbiter.Resource("model/" + name) }

// IsGPU says whether a resource is devices of a vendor.
func IsGPU(r arbiter.Resource) bool { return strings.HasPrefix(string(r), gpuPrefix) }

// Accounts is what queues and namespaces are charged for gangs. It owns the tree of queues.
type Accounts struct {
	ledger  *ledger.Ledger
	planner *planner.Planner
	tree    *arbiter.Tree
	memo    *memo.Memo
	roster  *Roster
	// counted is the excess as of the last CountFleet; nil before.
	counted *ledger.Excess
}

// Tree is the tree of queues, to read only.
func (a *Accounts) Tree() *arbiter.Tree { return a.tree }

// Elapse tells the queues the time.
func (a *Accounts) Elapse(now int64) { a.tree.Elapse(now) }

// Recount tells the tree what a gang uses and wants. It says whether the gang still waits
// or runs: one that lacks members does neither.
func (a *Accounts) Recount(k *Tracked) bool {
	a.roster.index(k)
	id := arbiter.JobID(k.ID)
	a.tree.Remove(id)
	if len(k.placed) == 0 && !k.Complete() {
		return false
	}
	job := a.job(k)
	if len(k.placed) > 0 {
		_ = a.tree.Charge(job, k.used) // amounts of what runs are never negative
		return true
	}
	_ = a.tree.Submit(job) // nothing in it is negative or without a name
	return true
}

// Charge charges a gang that waited in the tree for what it uses now.
func (a *Accounts) Charge(k *Tracked) {
	_ = a.tree.Charge(arbiter.Job{ID: arbiter.JobID(k.ID)}, k.used) // it waits there
}

// job is a gang as the arbiter knows it.
func (a *Accounts) job(k *Tracked) arbiter.Job {
	least, most := a.bounds(k)
	return arbiter.Job{
		ID: arbiter.JobID(k.ID), Queue: k.Queue, Namespace: k.Namespace, User: k.User, Priority: k.Priority, Submitted: k.Submitted,
		Class: string(k.shape), ExpectedRuntime: k.Runtime, Preemptible: k.Preemptible,
		Demand: arbiter.NewAmounts(least), Extra: arbiter.NewAmounts(most),
	}
}

// bounds are the amounts of the minimum and of what could be used besides. Which
// members make up the minimum beyond the roles' own is open; the first roles' count.
func (a *Accounts) bounds(k *Tracked) (least, extra map[arbiter.Resource]int64) {
	least, extra = map[arbiter.Resource]int64{}, map[arbiter.Resource]int64{}
	roles := make([]gang.Role, len(k.Roles))
	for i, r := range k.Roles {
		roles[i] = gang.Role{Members: r.Members, Min: r.Min}
	}
	counts := gang.Spread(k.Min, roles)
	if k.tree != nil {
		counts = k.tree.least(0, true)
	}
	for i, r := range k.Roles {
		a.AddTo(least, &k.Roles[i], counts[i])
		a.AddTo(extra, &k.Roles[i], len(r.Members)-counts[i])
	}
	return least, extra
}

// AddTo adds what so many members of a role are charged that have no place yet. Of a share
// of memory that is the least it can turn out to be; what the members really take is
// known when they have a place (chargeOf), and checked before they start.
func (a *Accounts) AddTo(to map[arbiter.Resource]int64, role *Role, count int) {
	if count <= 0 {
		return
	}
	n, r := int64(count), role.Request
	to[CPU] += n * r.Host.CPU
	to[Memory] += n * int64(r.Host.Memory.MiB())
	for _, x := range role.Charge {
		to[x.Resource] += n * x.Value
	}
	if r.Vendor != "" {
		milli := n * a.planner.Demand(r)
		to[GPU(r.Vendor)] += milli
		if len(r.UseModels) == 1 {
			to[Model(r.UseModels[0].Name())] += milli
		}
	}
}

// chargeOf is what a member is charged at its place: by the devices it holds there, or on a
// node that is not there by what it asks for.
func (a *Accounts) chargeOf(h model.HolderID, role *Role) arbiter.Amounts {
	sum := map[arbiter.Resource]int64{}
	node, claim, held := a.ledger.Claim(h)
	v, there := a.ledger.View(node)
	if !held || !there || claim.Vendor == "" {
		a.AddTo(sum, role, 1)
		return arbiter.NewAmounts(sum)
	}
	sum[CPU], sum[Memory] = claim.Host.CPU, int64(claim.Host.Memory.MiB())
	for _, x := range role.Charge {
		sum[x.Resource] += x.Value
	}
	add := func(d *model.Device, milli int64) {
		sum[GPU(claim.Vendor)] += milli
		if d != nil && d.Model.Name() != "" {
			sum[Model(d.Model.Name())] += milli
		}
	}
	_, set := a.ledger.Held(h)
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

// ChargeOfPlan is what a plan's members are charged at their places.
func (a *Accounts) ChargeOfPlan(k *Tracked, plan *gang.Plan) (sum arbiter.Amounts) {
	for _, p := range plan.Placements {
		sum = sum.Plus(a.chargeOf(p.Holder, &k.Roles[p.Role]))
	}
	return sum
}

// Asked is what a gang asks for now, at least so many members, and of the others as
// many as its queue and namespace allow.
func (a *Accounts) Asked(k *Tracked, least int) *gang.Ask {
	ask := k.Ask(least)
	most := 0
	for _, r := range ask.Roles {
		most += len(r.Members)
	}
	if len(k.placed) > 0 || least < most { // else it is its demand, which the arbiter judged
		return a.Limited(k, ask)
	}
	return ask
}

// Allows says what keeps a gang from having so many more members of each role.
func (a *Accounts) Allows(k *Tracked, counts []int) arbiter.Wait {
	return a.tree.May(arbiter.JobID(k.ID), a.Amounts(k, counts))
}

// Wait says what keeps a gang from having at least so many more members.
func (a *Accounts) Wait(k *Tracked, least int) arbiter.Wait {
	if len(k.placed) == 0 {
		return a.tree.Why(arbiter.JobID(k.ID))
	}
	return a.Allows(k, gang.Spread(least, k.Ask(least).Roles))
}

// total is what queues share: CPUs and memory of all nodes, their devices that are healthy
// or held, and what is held beyond that: what pods hold on failed devices or lost nodes is
// charged, and must not make others wait.
func (a *Accounts) total() map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for id := range a.ledger.Nodes() { // sums do not depend on the order
		v, _ := a.ledger.View(id)
		out[CPU] += v.Node.Host.CPU
		out[Memory] += int64(v.Node.Host.Memory.MiB())
		for _, vendor := range model.Vendors {
			for slot := range (v.Usable(vendor) | v.Devices(vendor)&v.Held).Slots() {
				d, milli := &v.Node.Devices[slot], int64(model.FullMilli)
				if d.Replicated { // sold once for every turn
					milli *= int64(d.Tenants)
				}
				out[GPU(vendor)] += milli
				if name := d.Model.Name(); name != "" {
					out[Model(name)] += milli
				}
			}
		}
	}
	for _, k := range a.roster.running { // sums do not depend on the order
		for _, s := range k.placed {
			if _, there := a.ledger.View(s.Node); there {
				continue
			}
			for _, x := range s.Charge {
				if _, counted := out[x.Resource]; counted { // others are limited, not shared
					out[x.Resource] += x.Value
				}
			}
		}
	}
	excess := a.ledger.Excess()
	out[CPU] += excess.Host.CPU
	out[Memory] += int64(excess.Host.Memory.MiB())
	for i, n := range excess.Devices {
		if n > 0 {
			out[GPU(model.Vendors[i])] += int64(n) * model.FullMilli
		}
	}
	return out
}

// CountFleet tells the tree of queues what the nodes offer now.
func (a *Accounts) CountFleet() {
	excess := a.ledger.Excess()
	a.counted = &excess
	_ = a.tree.SetTotal(a.total()) // what nodes offer is never negative
}

// CountExcess counts the fleet again when more or less is held beyond what nodes have.
func (a *Accounts) CountExcess() {
	if a.counted != nil && *a.counted != a.ledger.Excess() {
		a.CountFleet()
		a.memo.Note(memo.FleetCounted)
	}
}

// Limited lets what is asked for have as much as the gang's queue and namespace allow.
func (a *Accounts) Limited(k *Tracked, ask *gang.Ask) *gang.Ask {
	ask.Allow = func(counts []int) bool { return a.Allows(k, counts).Code == 0 }
	return ask
}

// Amounts is what so many members of each role are charged that have no place yet.
func (a *Accounts) Amounts(k *Tracked, counts []int) arbiter.Amounts {
	sum := map[arbiter.Resource]int64{}
	for i, n := range counts {
		a.AddTo(sum, &k.Roles[i], n)
	}
	return arbiter.NewAmounts(sum)
}
