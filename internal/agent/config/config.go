package config

import (
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// Mode is what the agent does on its node.
type Mode string

// The modes.
const (
	// Observe: another device plugin serves the node; the agent only looks.
	Observe Mode = "observe"
	// Serve: the agent is the node's device plugin.
	Serve Mode = "serve"
)

// MIGStrategy is how MIG instances are sold.
type MIGStrategy string

// The strategies.
const (
	// MIGNone: not at all; devices are sold whole, also where MIG mode is on.
	MIGNone MIGStrategy = "none"
	// MIGSingle: all instances of the node are alike and sold as nvidia.com/gpu.
	MIGSingle MIGStrategy = "single"
	// MIGMixed: by profile, as nvidia.com/mig-<profile>.
	MIGMixed MIGStrategy = "mixed"
)

// DeviceListStrategy is how a container is told which devices it has.
type DeviceListStrategy string

// The strategies.
const (
	// EnvVar: by NVIDIA_VISIBLE_DEVICES. A container whose own specification sets that
	// variable wins over the device plugin, so such containers are refused.
	EnvVar DeviceListStrategy = "envvar"
	// VolumeMounts: by mounts below /var/run/nvidia-container-devices.
	VolumeMounts DeviceListStrategy = "volume-mounts"
	// CDICRI: by the names of CDI devices. The default, unlike the NVIDIA plugin's
	// (envvar): what CDI sets goes before what a container's specification sets, so no
	// container can widen what it gets, and the specification may differ by container, as
	// unequal shares of one device need.
	CDICRI DeviceListStrategy = "cdi-cri"
)

// DeviceIDStrategy is how devices are named towards a container.
type DeviceIDStrategy string

// The strategies.
const (
	ByUUID  DeviceIDStrategy = "uuid"
	ByIndex DeviceIDStrategy = "index"
)

// Isolation is what enforces shares by amount.
type Isolation string

// The ways.
const (
	IsolationMPS  Isolation = "mps"
	IsolationHAMi Isolation = "hami"
	IsolationNone Isolation = "none"
)

// Config is everything the agent can be told. Load returns only valid ones.
type Config struct {
	Flags   Flags
	Sharing Sharing
	IMEX    IMEX
	Agent   Agent
	// Notes are settings that were understood and change nothing here, with the reason;
	// to be logged.
	Notes []string
}

// Flags are the NVIDIA plugin's settings, by the names of the file's section flags.
type Flags struct {
	MIGStrategy     MIGStrategy
	FailOnInitError bool
	// MPSRoot is where MPS daemons keep their pipes, on the node; empty for a folder below
	// Agent.StateDir.
	MPSRoot string
	// DriverRoot is the root of the driver's installation on the node, DevRoot that of
	// its device nodes; ContainerDriverRoot where DriverRoot is mounted in the agent.
	DriverRoot, DevRoot, ContainerDriverRoot string
	PassDeviceSpecs                          bool
	DeviceListStrategy                       DeviceListStrategy
	DeviceIDStrategy                         DeviceIDStrategy
	// Distributed: a pod without a record gets turns of the device with the fewest tenants;
	// else of one that is in use already. Pods with a record get what it names.
	Distributed bool
}

// Sharing is how devices are sold in turns; at most one of both is set.
type Sharing struct{ TimeSlicing, MPS *Replicated }

// Replicated sells each device several times.
type Replicated struct {
	// RenameByDefault: turns are called <resource>.shared.
	RenameByDefault bool
	// FailRequestsGreaterThanOne: a container may have one turn only. MPS's default is
	// true.
	FailRequestsGreaterThanOne bool
	Resources                  []Resource
}

// Resource is how often devices of one name are sold.
type Resource struct {
	// Name is such as nvidia.com/gpu.
	Name     string
	Replicas int
	// Percents are the parts of the device, of compute and memory alike, that each turn
	// gets with MPS, one for each replica. Empty for equal parts. The NVIDIA plugin does
	// not have it.
	Percents []int
}

// Find returns the entry for a resource, or nil.
func (r *Replicated) Find(name string) *Resource {
	if r == nil {
		return nil
	}
	for i := range r.Resources {
		if r.Resources[i].Name == name {
			return &r.Resources[i]
		}
	}
	return nil
}

// Sold is the name under which a resource is sold.
func (r *Replicated) Sold(name string) string {
	if r != nil && r.RenameByDefault && r.Find(name) != nil {
		return name + ".shared"
	}
	return name
}

// IMEX are the channels that every container gets.
type IMEX struct {
	Channels []int
	Required bool
}

// Agent are the agent's own settings, from flags only.
type Agent struct {
	Mode Mode
	// SharesPerGPU is how many shares by amount a device may have at once; 0 for none.
	SharesPerGPU int
	Isolation    Isolation
	// StateDir is where the agent keeps what must survive a restart, KubeletDir has
	// kubelet's sockets (device-plugins, pod-resources), CDIDir the CDI specifications.
	StateDir, KubeletDir, CDIDir string
	// SampleInterval is the time between samples of all devices, PublishInterval the
	// least between two writes of telemetry to the GPUNode.
	SampleInterval, PublishInterval time.Duration
	// HeartbeatInterval is after which time telemetry is written though nothing moved.
	HeartbeatInterval time.Duration
	// Health are the rules by which devices are judged.
	Health health.Options
	// DRA makes the agent a driver of Dynamic Resource Allocation.
	DRA bool
	// Reset allows the agent to reset devices that no process uses and no container holds.
	Reset bool
	// TopologyManager: kubelet's topologyManagerPolicy is not none. Devices that cannot be
	// given at the moment are withheld from kubelet then.
	TopologyManager bool
}

// Default is what holds when nothing is set.
func Default() *Config {
	return &Config{
		Flags: Flags{
			MIGStrategy: MIGNone, FailOnInitError: true, DriverRoot: "/", ContainerDriverRoot: "/driver-root",
			DeviceListStrategy: CDICRI, DeviceIDStrategy: ByUUID,
		},
		Agent: Agent{
			Mode: Observe, Isolation: IsolationMPS,
			StateDir: "/var/lib/tangram", KubeletDir: "/var/lib/kubelet", CDIDir: "/var/run/cdi",
			SampleInterval: 10 * time.Second, PublishInterval: 10 * time.Second, HeartbeatInterval: 4 * time.Minute,
			Health: health.Defaults(),
		},
	}
}
