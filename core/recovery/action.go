package recovery

import (
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// Plan is what to do now, in this order, and what to count.
type Plan struct {
	Actions []Action
	Notices []Notice
	// Detected and Recovered are times to put into histograms.
	Detected  []time.Duration
	Recovered []Recovery
	// Suppressed counts faults that nothing is done about because there are too many.
	Suppressed map[Cause]int
	Nodes      NodeCounts
	Devices    [health.Failed + 1]int
	// SchedulerSilence is for how long the scheduler's lease was not renewed; 0 without
	// one.
	SchedulerSilence time.Duration
	// Wake is when to look again at the latest.
	Wake time.Time
}

// NodeCounts counts nodes by what can be said of them first.
type NodeCounts struct{ Healthy, Degraded, Isolated, Lost int }

// Do is a kind of action.
type Do string

// The kinds.
const (
	// IsolateDevice: add our entry to the cordoned devices, and the mark.
	IsolateDevice Do = "IsolateDevice"
	// ReleaseDevice: remove both, and nothing else.
	ReleaseDevice Do = "ReleaseDevice"
	// MarkDevice: write the mark, leave the entry.
	MarkDevice Do = "MarkDevice"
	// IsolateNode: cordon and taint the node, and mark it. The writer
	// sets Cordoned of the mark, from the version of the node that it writes to.
	IsolateNode Do = "IsolateNode"
	// ReleaseNode: remove taint and mark, and the cordon if the mark says it is ours.
	ReleaseNode Do = "ReleaseNode"
	// MarkNode: write the mark; if it says Lifted, remove the taint as well.
	MarkNode Do = "MarkNode"
	// EvictPods: ask for the eviction of all of them, or of none when one is refused.
	EvictPods Do = "EvictPods"
	// RestartAgent: delete the agent's pod of UID Pods[0].
	RestartAgent Do = "RestartAgent"
	// StartTest: run a test pod on the device. EndTest: remove it.
	StartTest Do = "StartTest"
	EndTest   Do = "EndTest"
)

// Action is one thing to do. Actions are asked for again, with back-off, until the API
// shows their effect; Machine.Failed says that one was refused.
type Action struct {
	Do     Do
	Node   string
	Device string
	Cause  Cause
	// Why is for people: events and marks.
	Why  string
	Mark *Mark
	// Pods are UIDs. Unit is what they are evicted as: a gang's name, or a pod's UID.
	Pods []string
	Unit string
}

// key is what back-off is kept by.
func (a Action) key() string {
	if a.Do == EvictPods {
		return string(a.Do) + "/" + a.Unit
	}
	return string(a.Do) + "/" + a.Node + "/" + a.Device + "/" + a.Unit
}

// Notice is something to tell about a node, or about the cluster when Node is empty.
type Notice struct {
	Node   string
	Reason string
	Text   string
}

// Recovery is how long something was out of order, from detection on.
type Recovery struct {
	// Of is "workload" (until the last affected pod had gone), "device" or "node" (until
	// it was back in service).
	Of   string
	Took time.Duration
}
