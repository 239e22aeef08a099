package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/pack"
)

// QueueConfig says which timed trace to replay, on what and how.
type QueueConfig struct {
	Output
	Jobs        string // file
	GPUs        int
	GPUsPerNode int
	Runtimes    string // declared | learned | unknown: what is known of a job's runtime
	Order       string // of tangram's queues: an arbiter.Policy
	Aging       time.Duration
	Preempt     bool // tangram evicts
	// Reservations and Patience are those of the scheduler (GPUQueue's arguments).
	Reservations int
	Patience     time.Duration
}

// What the scheduler may know of runtimes.
const (
	Declared = "declared"
	Learned  = "learned"
	Unknown  = "unknown"
)

var runtimeNames = []string{Declared, Learned, Unknown}

// DefaultQueueConfig compares tangram with strict fifo.
func DefaultQueueConfig() QueueConfig {
	return QueueConfig{
		Output: Output{Policies: []string{"fifo", "tangram"}}, GPUs: 384, GPUsPerNode: 8, Runtimes: Declared,
		Order: arbiter.FIFO.String(), Aging: arbiter.DefaultAging,
		Reservations: engine.DefaultOptions().Reservations, Patience: engine.DefaultOptions().Patience,
	}
}

// complete checks all flags.
func (c *QueueConfig) complete() error {
	var bad problems
	bad.needs("--jobs", c.Jobs, "a timed trace with the columns "+strings.Join(timedColumns[:timedColumnsNeeded], ","))
	switch {
	case c.GPUsPerNode < 1 || c.GPUsPerNode > pack.MaxGPUs:
		bad.add("--gpus-per-node %d is not in 1..%d", c.GPUsPerNode, pack.MaxGPUs)
	case c.GPUs < 1 || c.GPUs%c.GPUsPerNode != 0:
		bad.add("--gpus %d is not a multiple of --gpus-per-node %d", c.GPUs, c.GPUsPerNode)
	case c.GPUs/c.GPUsPerNode > pack.MaxNodes:
		bad.add("--gpus %d: more than %d nodes", c.GPUs, pack.MaxNodes)
	}
	bad.output(&c.Output, queuePolicyNames())
	if !slices.Contains(runtimeNames, c.Runtimes) {
		bad.add("--runtimes %q is unknown, want one of %s", c.Runtimes, strings.Join(runtimeNames, ", "))
	}
	if _, err := arbiter.ParsePolicy(c.Order); err != nil {
		bad.add("--order: %w", err)
	}
	if c.Aging <= 0 {
		bad.add("--aging %v is not above 0", c.Aging)
	}
	if c.Reservations < 0 {
		bad.add("--reservations %d is negative", c.Reservations)
	}
	if c.Patience <= 0 {
		bad.add("--patience %v is not above 0", c.Patience)
	}
	return bad.err()
}
