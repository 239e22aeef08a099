package diagnose

import "time"

// Facts are what is known of one node.
type Facts struct {
	// Now is the time of the diagnosis.
	Now  time.Time
	Node Node
	// GPUs is what the GPUNode says; nil without one. Defined: the cluster has the kind.
	GPUs    *GPUs
	Defined bool
	// Pods are on the node and have not ended.
	Pods []Pod
	// Agents are pods of gpu-agent on the node, Plugins those of other device plugins.
	Agents, Plugins []Program
	// Slices are ResourceSlices of the node; nil where the cluster has no such kind.
	Slices []Slice
}

// Node is what the Node object says.
type Node struct {
	Name string
	// Ready is the condition Ready: True, False, Unknown; ReadySince when it became so.
	Ready, ReadyMessage string
	ReadySince          time.Time
	// Pressures are conditions that are True and should not be, such as DiskPressure.
	Pressures []string
	// Unschedulable: it is cordoned. Isolated and Maintenance are gpu-controller's mark and
	// the operator's annotation; empty without.
	Unschedulable         bool
	Isolated, Maintenance string
	// OwnCordon, of an isolated node: an operator had cordoned it before.
	OwnCordon bool
	// Simulated: kubelet is played by KWOK, as on clusters of `tangram up`, where agents are
	// processes and not pods.
	Simulated bool
	Labels    map[string]string
	// Capacity and Allocatable are of extended resources that are about GPUs.
	Capacity, Allocatable map[string]int64
}

// GPUs is what the agent publishes.
type GPUs struct {
	Driver, CUDA string
	// DriverReady is the condition's status, True, False or Unknown; empty when it is not
	// there. DriverMessage is its message.
	DriverReady, DriverMessage string
	AgentVersion               string
	// Serving: the agent is the node's device plugin.
	Serving bool
	// MeasuredAt is when the agent last measured; zero when it never did.
	MeasuredAt time.Time
	Devices    []Device
	// Cordoned are entries of spec.cordoned.
	Cordoned []string
	// Replicas of each device are sold as units of Resource; 0 for none.
	Replicas int
	Renamed  bool
	// Problem is what contradicts itself in the object, as the scheduler reads it.
	Problem string
}

// Device is one GPU.
type Device struct {
	Index         int
	UUID          string
	Vendor, Model string
	MemoryMiB     int64
	NVLinks       int
	// Linked: spec.links has it joined to another by NVLink or NVSwitch.
	Linked bool
	// Health is Healthy, Suspect, Degraded or Failed; Cause its code, Reason its sentence.
	Health, Cause, Reason string
	Since                 time.Time
	// What was measured; -1 where it was not.
	XID, Temperature, Watts int
	UsedMiB                 int64
	// Over are pods that use more memory than they were given.
	Over []Over
	// MIG: it can be cut; Cut: MIG mode is on. Instances are the slices that exist, by
	// profile, Owned how many of them the agent made.
	MIG, Cut  bool
	Instances map[string]int
	Owned     int
}

// Over is a pod that uses more memory than it was given.
type Over struct {
	Pod          string
	Used, GivenM int64
}

// Pod is one on the node.
type Pod struct {
	// Name is namespace/name.
	Name string
	// Asks: it asks for GPUs by extended resource in words that Tangram reads; AskError: its
	// words are invalid. ByClaim: it has ResourceClaims.
	Asks     bool
	AskError string
	ByClaim  bool
	// Record says whether it has one; RecordError what is wrong with it.
	Record      bool
	RecordError string
	// Held are the devices of its record.
	Held []Held
	// Started: it is Running. BoundAt is when it was bound.
	Started bool
	BoundAt time.Time
	// DeleteBy is when a pod that is being deleted should have been gone; zero for others.
	DeleteBy time.Time
	// Ours: it was bound by a scheduler that writes records.
	Ours bool
}

// Held is a device of a record.
type Held struct {
	Index int
	UUID  string
	// Whole: all of the device.
	Whole bool
}

// Program is a pod of a DaemonSet that serves the node.
type Program struct {
	Name     string
	Ready    bool
	Restarts int
	// Waiting is why a container does not run, such as CrashLoopBackOff.
	Waiting string
}

// Slice is a ResourceSlice.
type Slice struct {
	Name, Driver, Pool string
	Devices            int
	// Generation of its pool, and how many slices the pool has in that generation.
	Generation, Count int64
}
