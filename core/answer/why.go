package answer

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/reserve"
)

// Why says why a gang waits. Of one that runs the reason is that of its missing
// members, if any. It is found anew each time, at the cost of a plan and of a look at
// every node.
func (a Reasons) Why(id cluster.ID) explain.Reason {
	k := a.cluster.Gang(id)
	if k == nil || k.Placed() > 0 && k.Placed() >= k.Exists() && k.Missing() == 0 {
		return explain.Reason{}
	}
	r := a.why(k)
	r.Prospect = a.prospect(id)
	if r.Code == explain.Nodes && k.Memo.LastRefusal() != "" && r.Detail == "" && r.Nodes.Fit() > 0 {
		r.Code, r.Detail = explain.BackOff, k.Memo.LastRefusal()
	}
	return r
}

func (a Reasons) why(k *cluster.Tracked) explain.Reason {
	id := arbiter.JobID(k.ID)
	switch {
	case k.Invalid != "":
		return explain.Reason{Code: explain.Invalid, Detail: k.Invalid}
	case k.Missing() > 0 && !k.Complete():
		return k.Awaited()
	}
	waits := k.Placed() == 0
	wait := a.cluster.Wait(k, max(1, k.Missing()))
	if wait.ForQuota() {
		return wait.Reason()
	}
	if k.Memo.OverQuota().ForQuota() {
		return k.Memo.OverQuota().Reason()
	}
	if r := a.refusedEverywhere(k); r.Is() {
		return r
	}
	if r := a.cluster.Never(k); r != nil && waits {
		return *r
	}
	// More than the cluster has at all is for the nodes to explain.
	if w := a.cluster.Tree().Never(id); waits && w.Code != 0 && w.Need <= w.Limit {
		r := w.Reason()
		r.Never = true
		return r
	}
	failure := a.explain(k)
	switch {
	case failure != nil:
		return failure.Reason()
	case k.Memo.Rests(a.memo.Now()):
		return explain.Reason{Code: explain.BackOff, Detail: k.Memo.LastRefusal()}
	case wait.Code != 0:
		return wait.Reason()
	case waits && a.book.TakesQuota(k, k.End(a.memo.Now())):
		return a.keptFor(k, explain.QuotaKept, a.book.All())
	case a.book.Closing(k, a.memo.Now()) != nil:
		return a.keptFor(k, explain.NodesKept, a.book.Closing(k, a.memo.Now()))
	}
	return a.turn(k)
}

// refusedEverywhere says what kube-scheduler's filters hold against a role on every
// node: a claim that does not exist, say. It is the decisive cause.
func (a Reasons) refusedEverywhere(k *cluster.Tracked) explain.Reason {
	for i := range k.Roles {
		if r := a.memo.Everywhere(k.Roles[i].Shape, a.memo.Now()); r != nil && k.Have(i) < len(k.Roles[i].Members) {
			return explain.Reason{Code: explain.Rejected, Need: k.Min, Placed: k.Placed(), Detail: r.Detail}
		}
	}
	return explain.Reason{}
}

// keptFor says for which gangs is kept what a gang could use. Gangs of other namespaces
// are counted, not named.
func (a Reasons) keptFor(k *cluster.Tracked, code explain.Code, by []*reserve.Reservation) explain.Reason {
	r := explain.Reason{Code: code}
	for _, x := range by {
		if o := a.cluster.Gang(x.Gang()); o != k {
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
func (a Reasons) turn(k *cluster.Tracked) explain.Reason {
	r := explain.Reason{Code: explain.Turn}
	for job := range a.cluster.Tree().Waiting(a.memo.Now()) {
		o := a.cluster.Gang(cluster.ID(job.ID))
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
func (a Reasons) prospect(id cluster.ID) explain.Prospect {
	at, nodes, ok := Gangs(a).Reservation(id)
	if !ok {
		return explain.Prospect{}
	}
	return explain.Prospect{Nodes: nodes, At: at, Freeing: Gangs(a).Freeing(id)}
}

// explain plans a gang for the reasons only, as if nothing were reserved.
func (a Reasons) explain(k *cluster.Tracked) *gang.Failure {
	t := a.cluster.Begin()
	defer t.Rollback()
	ask := k.Ask(max(1, k.Missing()))
	a.cluster.Constrain(k, ask, nil)
	ask.Terse = false
	_, failure := t.Plan(ask)
	return failure
}

// Reasons says why nodes' devices cannot take a request.
func (a Reasons) Reasons(r *model.Request) explain.Tally { return a.cluster.Planner().Reasons(r) }
