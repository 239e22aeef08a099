package recovery

import (
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// Fleet is what the API shows: all nodes that have GPUs, the pods on them, and the rest of
// the members of their gangs. Order does not matter.
type Fleet struct {
	Nodes     []Node
	Pods      []Pod
	Scheduler Scheduler
}

// Node is one node that has GPUs.
type Node struct {
	Name string
	// Ready is kubelet's word, or that of the control plane about a kubelet that is
	// silent; NotReadySince is when it ceased to be so.
	Ready         bool
	NotReadySince time.Time
	// Unschedulable: the node is cordoned, by an operator or by us. Tainted: our taint is on it.
	Unschedulable, Tainted bool
	// Mark is ours; nil when we have not isolated the node.
	Mark *Mark
	// Maintenance is when an operator wants the node emptied; nil for never.
	Maintenance *Maintenance
	// DriverReady is false when the agent says that it cannot talk to the driver, since
	// DriverSince.
	DriverReady bool
	DriverSince time.Time
	Agent       Agent
	Devices     []Device
	// Replaced are devices that are isolated and no longer there.
	Replaced []string
}

// Maintenance is a time in which a node is to be empty.
type Maintenance struct {
	From time.Time
	// Until is zero for a maintenance that ends when the operator says so.
	Until time.Time
}

func (m *Maintenance) inEffect(now time.Time) bool {
	return m != nil && !now.Before(m.From) && (m.Until.IsZero() || now.Before(m.Until))
}

// Agent is the agent of a node.
type Agent struct {
	// Heartbeat changes whenever the agent writes; empty when the node has none. It is
	// compared and not read: the node's clock may be wrong.
	Heartbeat string
	// Pod is the UID of its pod; empty when none is known.
	Pod string
}

// Device is one device of a node.
type Device struct {
	// ID identifies it on its node: its UUID, else its index.
	ID string
	// State is what its agent says.
	State health.State
	// Reason is the agent's.
	Reason string
	// Since is when it came into this state.
	Since time.Time
	// Isolated: our entry is among the cordoned devices. Cordoned: an operator's is.
	Isolated, Cordoned bool
	// Mark is ours; an entry without a mark counts as one that lost it.
	Mark *Mark
	// Test is a test pod on the device; nil without one.
	Test *Test
}

// Mark is what is written beside an isolation, for the next controller to go on with.
type Mark struct {
	Cause Cause `json:"cause"`
	// Why is the fault in words.
	Why string `json:"why,omitempty"`
	// Began is when the fault began, Detected when it was acted on.
	Began    time.Time `json:"began"`
	Detected time.Time `json:"detected"`
	// Cordoned, of a node: it was not cordoned before.
	Cordoned bool `json:"cordoned,omitempty"`
	// Lifted: an operator put it back into service. Nothing is done until the fault has
	// gone.
	Lifted bool `json:"lifted,omitempty"`
}

// Cause is why something was isolated, or a pod evicted.
type Cause string

// The causes.
const (
	NoCause        Cause = ""
	NodeNotReady   Cause = "NodeNotReady"
	DriverNotReady Cause = "DriverNotReady"
	AgentSilent    Cause = "AgentSilent"
	DeviceDegraded Cause = "DeviceDegraded"
	DeviceFailed   Cause = "DeviceFailed"
	UnderRepair    Cause = "Maintenance"
	OverMemory     Cause = "OverMemory"
)

// Causes lists them, for metrics.
func Causes() []Cause {
	return []Cause{NodeNotReady, DriverNotReady, AgentSilent, DeviceDegraded, DeviceFailed, UnderRepair, OverMemory}
}

// Outcome is how a test pod does.
type Outcome int

// The outcomes.
const (
	TestRuns Outcome = iota
	TestPassed
	TestFailed
)

// Test is a test pod on a device.
type Test struct {
	Outcome Outcome
	// Why it failed.
	Why     string
	Started time.Time
}

// Pod is a pod that is bound to a node and has not ended.
type Pod struct {
	UID, Namespace, Name, Node string
	// Devices are those of its record, by ID.
	Devices []string
	// GPUs: it asks for some, whether or not its devices are known.
	GPUs bool
	// Gang names its gang; empty for none. GangMin is how many members the gang needs.
	Gang    string
	GangMin int
	// Leaving: it is being deleted.
	Leaving bool
	// Fixed: it belongs to its node (a DaemonSet's, a static pod): no drain moves it.
	Fixed bool
	// Critical: of a system class or namespace; only a maintenance moves it.
	Critical bool
	// UsedMiB and GivenMiB are GPU memory; UsedMiB is 0 where it is not measured.
	UsedMiB, GivenMiB int64
}

// Scheduler is what is known of the scheduler's lease.
type Scheduler struct {
	// Known: there is a lease.
	Known bool
	// Renewal changes whenever the lease is renewed.
	Renewal string
}
