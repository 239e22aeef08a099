package recovery

import (
	"fmt"
	"time"
)

// Config says how often is looked, how sure is sure, and how far recovery may go.
type Config struct {
	// NodeInterval, DeviceInterval and SchedulerInterval are the times between two looks
	// at all nodes, at all devices and at the scheduler's lease.
	NodeInterval, DeviceInterval, SchedulerInterval time.Duration
	// Confirmations is in how many looks in a row a fault must be seen before anything is
	// done about it; at least 2, or a false alarm that reaches us node by node would be
	// acted on before it is seen to be one.
	Confirmations int
	// MaxNodesPercent and MaxDevicesPercent bound what is isolated at once for faults, in
	// percent of all nodes with GPUs and of all devices; one is always allowed.
	MaxNodesPercent, MaxDevicesPercent int
	// IsolateNodes and IsolateDevices: new pods are kept off what is sick. Without, faults
	// are only reported.
	IsolateNodes, IsolateDevices bool
	// Evict is from which state of a device on its pods are moved, and whether those of a
	// lost node are.
	Evict Evict
	// EvictOverMemory: pods that use more GPU memory than they were given are evicted.
	EvictOverMemory bool
	// AgentSilentFor is how long an agent may write nothing before it counts as dead.
	AgentSilentFor time.Duration
	// RestartAgent: the agent's pod is deleted, for its DaemonSet to make another, when it
	// is silent or a device of its node does not recover.
	RestartAgent bool
	// RecoverAfter is how long a node or device must be well before it is verified and put
	// back into service.
	RecoverAfter time.Duration
	// Verify: a test pod must run on a device before it is put back.
	Verify bool
	// VerifyTimeout is how long a test pod may take.
	VerifyTimeout time.Duration
	// BackoffFirst is the pause after the first refusal or failure of an action, doubled by
	// each further one up to BackoffMost.
	BackoffFirst, BackoffMost time.Duration
}

// Evict is which pods are moved.
type Evict string

// The choices.
const (
	// EvictNever: none.
	EvictNever Evict = "Never"
	// EvictFailed: those of failed devices and lost nodes.
	EvictFailed Evict = "Failed"
	// EvictDegraded: those of degraded devices as well.
	EvictDegraded Evict = "Degraded"
)

// Defaults are the intervals of requirement document 003, isolation within a tenth of
// the fleet, and no eviction: a false report then costs places for new pods and no work.
func Defaults() Config {
	return Config{
		NodeInterval: 30 * time.Second, DeviceInterval: time.Minute, SchedulerInterval: 5 * time.Minute,
		Confirmations: 2, MaxNodesPercent: 10, MaxDevicesPercent: 10, IsolateNodes: true, IsolateDevices: true,
		Evict: EvictNever, AgentSilentFor: 15 * time.Minute, RestartAgent: true,
		RecoverAfter: 2 * time.Minute, VerifyTimeout: 5 * time.Minute,
		BackoffFirst: 10 * time.Second, BackoffMost: 30 * time.Minute,
	}
}

// Validate returns what is wrong, with the field's name in a configuration file.
func (c Config) Validate() error {
	times := []struct {
		field      string
		value      time.Duration
		from, upTo time.Duration
	}{
		{"intervals.node", c.NodeInterval, 100 * time.Millisecond, time.Hour},
		{"intervals.device", c.DeviceInterval, 100 * time.Millisecond, time.Hour},
		{"intervals.scheduler", c.SchedulerInterval, 100 * time.Millisecond, time.Hour},
		{"agent.silentFor", c.AgentSilentFor, time.Second, 24 * time.Hour},
		{"recoverAfter", c.RecoverAfter, 0, 24 * time.Hour},
		{"verify.timeout", c.VerifyTimeout, time.Second, time.Hour},
		{"backoff.first", c.BackoffFirst, 100 * time.Millisecond, time.Hour},
		{"backoff.most", c.BackoffMost, c.BackoffFirst, 24 * time.Hour},
	}
	for _, t := range times {
		if t.value < t.from || t.value > t.upTo {
			return fmt.Errorf("%s: %s, want %s to %s", t.field, t.value, t.from, t.upTo)
		}
	}
	numbers := []struct {
		field             string
		value, from, upTo int
	}{
		{"confirmations", c.Confirmations, 2, 100},
		{"limits.nodesPercent", c.MaxNodesPercent, 1, 100},
		{"limits.devicesPercent", c.MaxDevicesPercent, 1, 100},
	}
	for _, n := range numbers {
		if n.value < n.from || n.value > n.upTo {
			return fmt.Errorf("%s: %d, want %d to %d", n.field, n.value, n.from, n.upTo)
		}
	}
	switch c.Evict {
	case EvictNever, EvictFailed, EvictDegraded:
	default:
		return fmt.Errorf("evict.from: %q, want %s, %s or %s", string(c.Evict), EvictNever, EvictFailed, EvictDegraded)
	}
	return nil
}
