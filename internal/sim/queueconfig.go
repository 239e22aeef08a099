package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/pack"
)

// QueueConfig says which timed trace to replay, on what and how.
type QueueConfig struct {
	Jobs        string // file
	GPUs        int
	GPUsPerNode int
	Policies    []string // names, see queuePolicyNames
	Runtimes    string   // declared | learned | unknown: what is known of a job's runtime
	Order       string   // of tangram's queues: fifo, priority, sjf, roundrobin
	Aging       time.Duration
	Preempt     bool // tangram evicts
	// Reservations and Patience are those of the scheduler (GPUQueue's arguments).
	Reservations int
	Patience     time.Duration
	JSON         bool
	HTML         string // file; empty for none
}

// What the scheduler may know of runtimes.
const (
	Declared = "declared"
	Learned  = "learned"
	Unknown  = "unknown"
)

var runtimeNames = []string{Declared, Learned, Unknown}

// DefaultQueueConfig compares Tangram with plain fifo, on nodes as they are sold.
func DefaultQueueConfig() QueueConfig {
	return QueueConfig{
		GPUs: 384, GPUsPerNode: 8, Policies: []string{"fifo", "tangram"}, Runtimes: Declared,
		Order: arbiter.FIFO.String(), Aging: arbiter.DefaultAging,
		Reservations: engine.DefaultOptions().Reservations, Patience: engine.DefaultOptions().Patience,
	}
}

// complete says what is wrong, naming the flag.
func (c *QueueConfig) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Jobs == "" {
		bad("--jobs is missing: a timed trace with the columns %s", strings.Join(timedColumns[:timedColumnsNeeded], ","))
	}
	switch {
	case c.GPUsPerNode < 1 || c.GPUsPerNode > pack.MaxGPUs:
		bad("--gpus-per-node %d is not in 1..%d", c.GPUsPerNode, pack.MaxGPUs)
	case c.GPUs < 1 || c.GPUs%c.GPUsPerNode != 0:
		bad("--gpus %d is not a multiple of --gpus-per-node %d", c.GPUs, c.GPUsPerNode)
	case c.GPUs/c.GPUsPerNode > pack.MaxNodes:
		bad("--gpus %d: more than %d nodes", c.GPUs, pack.MaxNodes)
	}
	if len(c.Policies) == 0 {
		bad("--policy is empty, want some of %s", strings.Join(queuePolicyNames, ", "))
	}
	for i, p := range c.Policies {
		if !slices.Contains(queuePolicyNames, p) {
			bad("--policy %q is unknown, want some of %s", p, strings.Join(queuePolicyNames, ", "))
		}
		if slices.Contains(c.Policies[:i], p) {
			bad("--policy %q is there twice", p)
		}
	}
	if !slices.Contains(runtimeNames, c.Runtimes) {
		bad("--runtimes %q is unknown, want one of %s", c.Runtimes, strings.Join(runtimeNames, ", "))
	}
	if _, ok := arbiter.ParsePolicy(c.Order); !ok {
		bad("--order %q is unknown, want fifo, priority, sjf or roundrobin", c.Order)
	}
	if c.Aging <= 0 {
		bad("--aging %v is not above 0", c.Aging)
	}
	if c.Reservations < 0 {
		bad("--reservations %d is negative", c.Reservations)
	}
	if c.Patience <= 0 {
		bad("--patience %v is not above 0", c.Patience)
	}
	if c.HTML != "" { // better now than after minutes of work
		if info, err := os.Stat(filepath.Dir(c.HTML)); err != nil || !info.IsDir() {
			bad("--html %q: there is no such folder", c.HTML)
		}
	}
	return errors.Join(errs...)
}
