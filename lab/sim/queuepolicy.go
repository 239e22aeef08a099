package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
)

// queuePolicyNames are the policies that --policy may name: every order of jobs in one queue,
// and two ways to share between queues.
func queuePolicyNames() (out []string) {
	for _, p := range arbiter.Policies() {
		out = append(out, p.String())
	}
	return append(out, "drf", "tangram")
}

// aboutQueuePolicy describes a policy in one line, for the help text and the page.
func aboutQueuePolicy(name string) string {
	switch name {
	case "fifo":
		return "one queue, strict order: no job passes the first"
	case "drf":
		return "fair share between queues, skipping jobs that do not fit"
	case "tangram":
		return "fair share between queues, reservations and backfill: as the scheduler does"
	}
	order, _ := arbiter.ParsePolicy(name)
	return "one queue, skipping jobs that do not fit; jobs go " + order.About()
}

// queuePolicy is a way to run queues: options and queues of the engine, nothing else.
// All policies are the same code.
type queuePolicy struct {
	options engine.Options
	// own: every queue of the trace has one here; otherwise all jobs wait in one, and
	// the queues of the trace are its users.
	own   bool
	order arbiter.Policy
	aging time.Duration // as in arbiter.Queue
}

// newQueuePolicy returns a policy by name.
func newQueuePolicy(name string, c *QueueConfig) (queuePolicy, error) {
	const never = -1
	p := queuePolicy{options: plainOptions(), aging: never}
	switch name {
	case "fifo":
		p.options.Backfill = false
	case "drf":
		p.own = true
	case "tangram":
		p.options.Preempt, p.options.Reservations, p.options.Patience = c.Preempt, c.Reservations, c.Patience
		p.own = true
		p.order, _ = arbiter.ParsePolicy(c.Order)
		p.aging = c.Aging
	default:
		var err error
		if p.order, err = arbiter.ParsePolicy(name); err != nil {
			return p, fmt.Errorf("policy: %w", err)
		}
	}
	return p, nil
}

// plainOptions are the scheduler's without reservations and preemption: jobs that do not fit
// are skipped.
func plainOptions() engine.Options {
	o := engine.DefaultOptions()
	o.Reservations, o.Preempt = 0, false
	o.Effort = math.MaxInt32 // no lock is held that others wait for, so a step need not end early
	return o
}

// queues are the queues of a trace under the policy.
func (p *queuePolicy) queues(jobs []TimedJob) []arbiter.Queue {
	names := map[string]bool{}
	for i := range jobs {
		names[p.queueOf(&jobs[i])] = true
	}
	var out []arbiter.Queue
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, arbiter.Queue{Name: name, Order: p.order, Aging: p.aging, Reclaimable: true})
	}
	return out
}

// queueOf is the queue a job waits in. Names of the trace get a prefix: one of them
// may be "root".
func (p *queuePolicy) queueOf(j *TimedJob) string {
	if p.own {
		return "queue/" + j.Queue
	}
	return arbiter.Default
}
