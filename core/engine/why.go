package engine

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// Why says why a gang waits. Of one that runs the reason is that of its missing
// members, if any. It is found anew each time, at the cost of a plan and of a look at
// every node.
func (e *Engine) Why(id ID) explain.Reason {
	k := e.gangs[id]
	if k == nil || len(k.placed) > 0 && len(k.placed) >= k.exists && k.missing() == 0 {
		return explain.Reason{}
	}
	r := e.why(k)
	r.Prospect = e.prospect(id)
	if r.Code == explain.Nodes && k.lastRefusal != "" && r.Detail == "" && r.Nodes.Fit() > 0 {
		r.Code, r.Detail = explain.BackOff, k.lastRefusal
	}
	return r
}

func (e *Engine) why(k *known) explain.Reason {
	id := arbiter.JobID(k.ID)
	switch {
	case k.Invalid != "":
		return explain.Reason{Code: explain.Invalid, Detail: k.Invalid}
	case k.missing() > 0 && !k.complete():
		return k.awaited()
	}
	waits := len(k.placed) == 0
	wait := e.wait(k, max(1, k.missing()))
	if wait.ForQuota() {
		return reasonOf(wait)
	}
	if k.overQuota.ForQuota() {
		return reasonOf(k.overQuota)
	}
	if r := e.refusedEverywhere(k); r.Is() {
		return r
	}
	if r := e.never(k); r != nil && waits {
		return *r
	}
	// More than the cluster has at all is for the nodes to explain.
	if w := e.tree.Never(id); waits && w.Code != 0 && w.Need <= w.Limit {
		r := reasonOf(w)
		r.Never = true
		return r
	}
	failure := e.explain(k)
	switch {
	case failure != nil:
		return failure.Reason()
	case k.rests(e.now):
		return explain.Reason{Code: explain.BackOff, Detail: k.lastRefusal}
	case wait.Code != 0:
		return reasonOf(wait)
	case waits && e.takesReservedQuota(k, e.end(k, e.now)):
		return e.keptFor(k, explain.QuotaKept, e.reserved)
	case e.closing(k, e.now) != nil:
		return e.keptFor(k, explain.NodesKept, e.closing(k, e.now))
	}
	return e.turn(k)
}

// awaited says of which members too few exist.
func (g *known) awaited() explain.Reason {
	if g.tree != nil {
		return g.awaitedUnit()
	}
	for _, r := range g.Roles {
		if g.exists >= g.Min && len(r.Members) < r.Min {
			return explain.Reason{Code: explain.Members, Need: r.Min, Exist: len(r.Members), Role: r.Name}
		}
	}
	return explain.Reason{Code: explain.Members, Need: g.Min, Exist: g.exists}
}

// refusedEverywhere says what kube-scheduler's filters hold against a role on every
// node: a claim that does not exist, say. It is the decisive cause.
func (e *Engine) refusedEverywhere(k *known) explain.Reason {
	for i := range k.Roles {
		if r := e.vetoes.everywhere(k.Roles[i].Shape, e.now); r != nil && k.have[i] < len(k.Roles[i].Members) {
			return explain.Reason{Code: explain.Rejected, Need: k.Min, Placed: len(k.placed), Detail: r.Detail}
		}
	}
	return explain.Reason{}
}

// keptFor says for which gangs is kept what a gang could use. Gangs of other namespaces
// are counted, not named.
func (e *Engine) keptFor(k *known, code explain.Code, by []*reservation) explain.Reason {
	r := explain.Reason{Code: code}
	for _, x := range by {
		if o := e.gangs[x.id]; o != k {
			if r.Ahead++; r.First == "" && o.Namespace == k.Namespace {
				r.First = o.Name
			}
		}
	}
	return r
}

// maxAhead bounds how many gangs are counted that are before another one.
const maxAhead = 1000

// turn says how many gangs are before one that only waits for its turn. Gangs of other
// namespaces are counted, not named.
func (e *Engine) turn(k *known) explain.Reason {
	r := explain.Reason{Code: explain.Turn}
	for job := range e.tree.Waiting(e.now) {
		o := e.gangs[ID(job.ID)]
		if o == k || r.Ahead == maxAhead {
			break
		}
		if r.Ahead++; r.First == "" && o.Namespace == k.Namespace {
			r.First = o.Name
		}
	}
	return r
}

// prospect is what a waiting gang can count on.
func (e *Engine) prospect(id ID) explain.Prospect {
	at, nodes, ok := e.Reservation(id)
	if !ok {
		return explain.Prospect{}
	}
	return explain.Prospect{Nodes: nodes, At: at, Freeing: e.Freeing(id)}
}

// waitCodes are the arbiter's codes as reasons.
var waitCodes = map[arbiter.Code]explain.Code{
	arbiter.NoQueue:        explain.NoQueue,
	arbiter.InnerQueue:     explain.InnerQueue,
	arbiter.QueueForbidden: explain.QueueForbidden,
	arbiter.QueueClosed:    explain.QueueClosed,
	arbiter.OverQuota:      explain.OverQuota,
	arbiter.OverCapability: explain.OverCapability,
	arbiter.Reserved:       explain.Guaranteed,
	arbiter.OverTotal:      explain.OverTotal,
}

// reasonOf is what keeps a job from being offered, as a reason.
func reasonOf(w arbiter.Wait) explain.Reason {
	if w.Code == 0 {
		return explain.Reason{}
	}
	return explain.Reason{
		Code: waitCodes[w.Code], Never: w.Never(), Queue: w.Queue, Namespace: w.Namespace, Resource: string(w.Resource),
		Want: w.Need, Limit: w.Limit, Used: w.Used,
	}
}

// explain plans a gang for the reasons only, as if nothing were reserved.
func (e *Engine) explain(k *known) *gang.Failure {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	ask := k.ask(max(1, k.missing()))
	e.constrain(k, ask, nil)
	ask.Terse = false
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure
}

// maxNever bounds how many shapes' fate is remembered: more than wait in all but the largest
// clusters, and some megabytes.
const maxNever = 16384

// never says why a gang can never fit, or nil: no change of running pods, cordons,
// taints or queues would let it. It is asked once per shape, until the fleet changes.
func (e *Engine) never(k *known) *explain.Reason {
	if v := e.ledger.FleetVersion(); v != e.neverFleet || len(e.nevers) > maxNever {
		e.neverFleet = v
		clear(e.nevers)
	}
	r, known := e.nevers[k.shape]
	if !known {
		r = e.findNever(k)
		e.nevers[k.shape] = r
	}
	return r
}

func (e *Engine) findNever(k *known) *explain.Reason {
	if e.empty == nil {
		e.empty = gang.NewEmpty(e.ledger)
	}
	whole := &gang.Ask{Min: k.Min, Require: k.Require}
	for _, r := range k.Roles {
		whole.Roles = append(whole.Roles, gang.Role{Name: r.Name, Request: r.Request, Members: r.Members, Min: r.Min})
	}
	if k.tree != nil {
		fresh := &known{Gang: k.Gang, tree: newTree(&k.Gang), have: make([]int, len(k.Roles))}
		whole = fresh.askFor(0)
		whole.Terse = false
	}
	e.constrain(k, whole, nil)
	if whole.May != nil {
		whole.May = func(role int, node model.NodeID) *explain.Refusal {
			if r := e.options.Facts.May(k.Roles[role].Shape, node); r != nil && r.Code.Permanence() == explain.Fixed {
				return r
			}
			return nil
		}
	}
	failure := e.empty.Never(whole)
	// On an empty fleet only the gang itself is in its way, or a fault.
	if failure == nil || failure.Nodes.Administered() || failure.Bounded {
		return nil
	}
	r := failure.Reason()
	r.Never = true
	return &r
}
