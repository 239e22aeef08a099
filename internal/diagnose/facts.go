package diagnose

import "time"

// Facts are what is known of one node.
type Facts struct {
	// Now is the time of the diagnosis.
	Now  time.Time
	Node Node
	// GPUs is what the GPUNode says; nil without one. Defined: the cluster has the kind.
	GPUs            *GPUs
	Defined         bool
	Pods            []Pod     // those on the node that have not ended
	Agents, Plugins []Program // pods of gpu-agent on the node, and of other device plugins
	Slices          []Slice   // ResourceSlices of the node; nil where the cluster has no such kind
}

// Node is what the Node object says.
type Node struct {
	Name string
	// Ready is the condition Ready: True, False, Unknown; ReadySince when it became so.
	Ready, ReadyMessage string
	ReadySince          time.Time
	Pressures           []string // conditions that are True and should not be, such as DiskPressure
	// Unschedulable: it is cordoned. Isolated and Maintenance are gpu-controller's mark and
	// the operator's annotation; empty without.
	Unschedulable         bool
	Isolated, Maintenance string
	OwnCordon             bool // of an isolated node: an operator had cordoned it before
	// Simulated: kubelet is played by KWOK, as on clusters of `tangram up`, where agents are
	// processes and not pods.
	Simulated             bool
	Labels                map[string]string
	Capacity, Allocatable map[string]int64 // of extended resources that are about GPUs
}

// GPUs is what the agent publishes.
type GPUs struct {
	Driver, CUDA string
	// DriverReady is the condition's status, True, False or Unknown; empty when it is not
	// there. DriverMessage is its message.
	DriverReady, DriverMessage string
	AgentVersion               string
	Serving                    bool // the agent is the node's device plugin
	// MeasuredAt is when the agent last measured; zero when it never did.
	MeasuredAt time.Time
	Devices    []Device
	Cordoned   []string // entries of spec.cordoned
	// Replicas of each device are sold as units of Resource; 0 for none.
	Replicas int
	Renamed  bool
	Problem  string // what contradicts itself in the object, as the scheduler reads it
}

// Device is one GPU.
type Device struct {
	Index         int
	UUID          string
	Vendor, Model string
	MemoryMiB     int64
	NVLinks       int
	Linked        bool // spec.links has it joined to another by NVLink or NVSwitch
	// Health is Healthy, Suspect, Degraded or Failed; Cause its code, Reason its sentence.
	Health, Cause, Reason string
	Since                 time.Time
	// What was measured; -1 where it was not.
	XID, Temperature, Watts int
	UsedMiB                 int64
	Over                    []Over // pods that use more memory than they were given
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
	Name string // namespace/name
	// Asks: it asks for GPUs by extended resource in words that Tangram reads; AskError: its
	// words are invalid. ByClaim: it has ResourceClaims.
	Asks     bool
	AskError string
	ByClaim  bool
	// Record says whether it has one; RecordError what is wrong with it.
	Record      bool
	RecordError string
	Held        []Held // the devices of its record
	// Started: it is Running. BoundAt is when it was bound.
	Started  bool
	BoundAt  time.Time
	DeleteBy time.Time // when a pod that is being deleted should have been gone; zero for others
	Ours     bool      // it was bound by a scheduler that writes records
}

// Held is a device of a record.
type Held struct {
	Index int
	UUID  string
	Whole bool // all of the device
}

// Program is a pod of a DaemonSet that serves the node.
type Program struct {
	Name     string
	Ready    bool
	Restarts int
	Waiting  string // why a container does not run, such as CrashLoopBackOff
}

// Slice is a ResourceSlice.
type Slice struct {
	Name, Driver, Pool string
	Devices            int
	Generation, Count  int64 // of its pool, and how many slices the pool has in that generation
}
