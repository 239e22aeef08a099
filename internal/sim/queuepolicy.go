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

// queuePolicyNames are the policies one can ask for.
var queuePolicyNames = []string{"fifo", "priority", "sjf", "roundrobin", "drf", "tangram"}

// aboutQueuePolicy is a policy in one line, for people.
func aboutQueuePolicy(name string) string {
	return map[string]string{
		"fifo":       "one queue, strict order: no job passes the first",
		"priority":   "one queue, by priority, skipping jobs that do not fit",
		"sjf":        "one queue, the shortest first, skipping jobs that do not fit",
		"roundrobin": "one queue, queues of the trace take turns, skipping jobs that do not fit",
		"drf":        "fair share between queues, skipping jobs that do not fit",
		"tangram":    "fair share between queues, reservations and backfill: as the scheduler does",
	}[name]
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
	plain := engine.DefaultOptions() // with skipping, without reservations
	plain.Reservations, plain.Preempt = 0, false
	p := queuePolicy{options: plain, aging: never}
	switch name {
	case "fifo":
		p.options.Backfill = false
	case "priority":
		p.order = arbiter.Priority
	case "sjf":
		p.order = arbiter.ShortestFirst
	case "roundrobin":
		p.order = arbiter.RoundRobin
	case "drf":
		p.own = true
	case "tangram":
		p.options = engine.DefaultOptions()
		p.options.Preempt, p.options.Reservations, p.options.Patience = c.Preempt, c.Reservations, c.Patience
		p.own = true
		p.order, _ = arbiter.ParsePolicy(c.Order)
		p.aging = c.Aging
	default:
		return p, fmt.Errorf("unknown policy %q", name)
	}
	p.options.Effort = math.MaxInt32 // nobody waits for a lock here: a step may cost what it costs
	return p, nil
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
