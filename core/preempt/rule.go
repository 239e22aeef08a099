package preempt

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Protection is why a gang may not be evicted for another one. The zero value is none.
type Protection uint8

// Protections, in the order in which they are looked at.
const (
	Unprotected Protection = iota
	// Itself: a gang does not make room for itself.
	Itself
	// NotPreemptible: its owner or its namespace protects it.
	NotPreemptible
	// TooYoung: it has not run for as long as it is left alone.
	TooYoung
	// Priority: it is of the same queue, and its priority is not lower.
	Priority
	// Company: pods of other gangs are evicted with it, and one of these has a priority
	// that is not lower.
	Company
	// WithinShare: it is of another queue, which does not use more than its share.
	WithinShare
	// Leaving: members of it leave already.
	Leaving
	protections
)

// Contest is a gang that needs room, and gangs that might make it.
type Contest struct {
	*Rule
	preemptor *cluster.Tracked
	// over are the queues that use more than their share.
	over map[string]bool
	// victim is the gang that is judged now.
	victim *cluster.Tracked
}

// row is what is known of a protection: Name is stable, for metrics and documents, Says is for
// people. weighs: it says which gang matters more, so it also counts for members that leave
// already. holds: it protects the gang that is judged.
type row struct {
	Name, Says string
	weighs     bool
	holds      func(*Contest) bool
}

// table has one row per protection: all rules of preemption, each once.
var table = [protections]row{
	Unprotected:    {Name: "none", Says: "it may be evicted"},
	Itself:         {Name: "itself", Says: "a gang does not make room for itself", holds: itself},
	NotPreemptible: {Name: "not-preemptible", Says: "its pods, its namespace or its priority class protect it", holds: notPreemptible},
	TooYoung:       {Name: "too-young", Says: "it has not run for its minimum runtime", holds: tooYoung},
	Priority:       {Name: "priority", Says: "it is of the same queue, and its priority is not lower", weighs: true, holds: notLower},
	Company:        {Name: "company", Says: "pods that are evicted with it have a priority that is not lower", weighs: true, holds: company},
	WithinShare:    {Name: "within-share", Says: "its queue does not use more than its share", weighs: true, holds: withinShare},
	Leaving:        {Name: "leaving", Says: "members of it leave already", holds: leaving},
}

func itself(c *Contest) bool         { return c.victim == c.preemptor }
func notPreemptible(c *Contest) bool { return !c.victim.Preemptible }

// tooYoung: at least a nanosecond, so a gang that starts in a step is not evicted in it.
func tooYoung(c *Contest) bool {
	v := c.victim
	return c.memo.Now()-v.Started() < max(1, int64(v.MinRuntime), int64(c.cluster.Tree().MinRuntime(v.QueueName())))
}

func notLower(c *Contest) bool {
	return c.sameQueue() && c.victim.Priority >= c.preemptor.Priority
}

func company(c *Contest) bool {
	return c.sameQueue() && c.victim.InCompany && c.victim.Company >= c.preemptor.Priority
}

func withinShare(c *Contest) bool { return !c.sameQueue() && !c.over[c.victim.QueueName()] }
func leaving(c *Contest) bool     { return c.leaves(c.victim) }

// holds says whether one protection holds for the gang that is judged. A row without a rule,
// which a test finds, protects all.
func (c *Contest) holds(p Protection) bool {
	rule := table[p].holds
	return rule == nil || rule(c)
}

// String is the protection's stable name.
func (p Protection) String() string { return table[p].Name }

// Says is the protection in words.
func (p Protection) Says() string { return table[p].Says }

func (c *Contest) sameQueue() bool { return c.victim.QueueName() == c.preemptor.QueueName() }

// Rule says which gang may be evicted for which.
type Rule struct {
	cluster *cluster.Cluster
	memo    *memo.Memo
	options *cluster.Options
	// leaves says whether members of a gang were told to go.
	leaves func(*cluster.Tracked) bool
	// short is since when queues are short of gangs of a shape.
	short map[shortage]int64
}

// shortage is gangs of one queue that are alike.
type shortage struct {
	queue string
	shape model.GangShape
}

// For begins a contest for the room that a gang needs.
func (r *Rule) For(preemptor *cluster.Tracked) *Contest {
	return &Contest{Rule: r, preemptor: preemptor, over: r.OverShare(preemptor)}
}

// Protects says why a gang may not be evicted.
func (c *Contest) Protects(victim *cluster.Tracked) Protection {
	c.victim = victim
	for p := Itself; p < protections; p++ {
		if c.holds(p) {
			return p
		}
	}
	return Unprotected
}

// Evicts says whether a gang may be evicted.
func (c *Contest) Evicts(victim *cluster.Tracked) bool { return c.Protects(victim) == Unprotected }

// outweighs says whether a gang matters less than the one that needs its place.
func (c *Contest) outweighs(victim *cluster.Tracked) bool {
	c.victim = victim
	for p := Itself; p < protections; p++ {
		if table[p].weighs && c.holds(p) {
			return false
		}
	}
	return true
}

// Outranks says whether a running gang of the same queue has a lower priority.
func (r *Rule) Outranks(k *cluster.Tracked) bool {
	for rank := range r.cluster.Ranks() { // any
		if rank.Queue == k.QueueName() && rank.Priority < k.Priority {
			return true
		}
	}
	return false
}

// Lower finds the lowest priority, not below a gang's own, of which gangs of its queue run
// that can be evicted, and how many: with a priority above that, they could be.
func (r *Rule) Lower(k *cluster.Tracked) (count int, above int32) {
	if !r.options.Preempt || k.NeverPreempts {
		return 0, 0
	}
	for rank, n := range r.cluster.Ranks() { // the lowest does not depend on the order
		if rank.Queue == k.QueueName() && rank.Priority >= k.Priority && (count == 0 || rank.Priority < above) {
			count, above = n, rank.Priority
		}
	}
	return count, above
}

// reclaim begins to take back what a gang's queue is short of.
func (r *Rule) reclaim(k *cluster.Tracked) (*arbiter.Reclaim, bool) {
	key := shortage{k.QueueName(), k.Shape()}
	reclaim, ok := r.cluster.Tree().Reclaim(arbiter.JobID(k.ID))
	if !ok {
		delete(r.short, key)
		return nil, false
	}
	now := r.memo.Now()
	since, known := r.short[key]
	if !known {
		if len(r.short) > memo.MaxFates {
			clear(r.short)
		}
		since, r.short[key] = now, now
	}
	return reclaim, now-since >= int64(r.options.Timing.ReclaimAfter)
}

// OverShare are the queues that use more than their share and may have to give to a gang.
func (r *Rule) OverShare(k *cluster.Tracked) map[string]bool {
	out := map[string]bool{}
	if reclaim, ok := r.reclaim(k); ok {
		for _, x := range reclaim.Over() {
			out[x.Queue] = true
		}
	}
	return out
}
