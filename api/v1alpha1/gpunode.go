package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUNode describes the GPUs of the node it is named after. The agent writes
// it; on a cluster without one, Tangram derives the same from node labels and
// allocatable resources.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gn,categories=tangram
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.devices[0].model`
// +kubebuilder:printcolumn:name="Memory(MiB)",type=integer,JSONPath=`.spec.devices[0].memoryMiB`
// +kubebuilder:printcolumn:name="Links",type=string,JSONPath=`.spec.links[0].class`
// +kubebuilder:printcolumn:name="Unhealthy",type=string,JSONPath=`.status.devices[?(@.health!="Healthy")].index`
// +kubebuilder:printcolumn:name="Cordoned",type=string,JSONPath=`.spec.cordoned`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GPUNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GPUNodeSpec   `json:"spec"`
	Status GPUNodeStatus `json:"status,omitempty"`
}

// GPUNodeSpec is the inventory: what is built into the node.
// +kubebuilder:validation:XValidation:rule="self.devices.all(d, !has(d.uuid) || self.devices.exists_one(e, has(e.uuid) && e.uuid == d.uuid))",message="spec.devices: two devices have the same uuid"
// +kubebuilder:validation:XValidation:rule="!has(self.links) || self.links.all(l, l.between.all(i, self.devices.exists(d, d.index == i)))",message="spec.links: between names an index that is not in spec.devices"
type GPUNodeSpec struct {
	// Devices are the node's GPUs, one entry per physical device.
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=16
	Devices []Device `json:"devices"`
	// Links say how devices reach each other. A pair that no link names is
	// joined by the system bus (SYS); a pair named twice has the better class.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Links []Link `json:"links,omitempty"`
	// Driver is the GPU driver that the agent talks to.
	Driver *Driver `json:"driver,omitempty"`
	// Agent says which agent describes the node, and how.
	Agent *Agent `json:"agent,omitempty"`
	// Sharing is how the agent sells devices to several containers; absent where it
	// does not, or where another device plugin does.
	Sharing *Sharing `json:"sharing,omitempty"`
	// Cordoned are devices, by UUID or index, that take no new pods; pods that run there
	// stay. Operators write it; entries that begin with gpu-controller: are
	// gpu-controller's, which touches no others.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	Cordoned []string `json:"cordoned,omitempty"`
}

// Driver is the GPU driver of a node.
type Driver struct {
	// Version is such as 580.159.03.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// CUDA is the newest CUDA version that it supports, such as 13.0.
	// +kubebuilder:validation:MaxLength=64
	CUDA string `json:"cuda,omitempty"`
}

// AgentMode is what an agent does on its node.
// +kubebuilder:validation:Enum=Serving;Observing
type AgentMode string

// The modes.
const (
	// Serving: the agent is the node's device plugin.
	Serving AgentMode = "Serving"
	// Observing: another device plugin hands out devices; the agent only looks.
	Observing AgentMode = "Observing"
)

// Agent is the program that writes a GPUNode.
type Agent struct {
	// Version is the agent's version.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// Mode is what it does.
	Mode AgentMode `json:"mode,omitempty"`
}

// SharingStrategy is how a device is shared.
// +kubebuilder:validation:Enum=TimeSlicing;MPS;HAMiCore
type SharingStrategy string

// The strategies.
const (
	// TimeSlicing: containers take turns; nothing limits them.
	TimeSlicing SharingStrategy = "TimeSlicing"
	// MPS: containers run side by side, with limits on compute and memory.
	MPS SharingStrategy = "MPS"
	// HAMiCore: HAMi's library in the container limits compute and memory.
	HAMiCore SharingStrategy = "HAMiCore"
)

// Sharing is how a node's devices are sold to several containers.
type Sharing struct {
	// Strategy is how.
	Strategy SharingStrategy `json:"strategy"`
	// Replicas is how many turns of each device are sold as one unit each of a
	// resource; 0 when shares are sold by amount of memory and compute instead.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas,omitempty"`
	// Renamed: turns are sold as nvidia.com/gpu.shared, so that nvidia.com/gpu never
	// means a turn.
	Renamed bool `json:"renamed,omitempty"`
	// OnePerContainer: a container may ask for one turn only.
	OnePerContainer bool `json:"onePerContainer,omitempty"`
	// MaxShares is how many shares by amount a device may have at once; 0 for none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxShares int32 `json:"maxShares,omitempty"`
}

// Device is one physical GPU.
type Device struct {
	// Index is the device's number on its node, as nvidia-smi shows it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	Index int32 `json:"index"`
	// UUID identifies the device across reboots.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._:/-]+$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UUID string `json:"uuid,omitempty"`
	// Vendor is the device's maker, which decides which extended resource sells it.
	// +kubebuilder:validation:Enum=nvidia;amd;intel;ascend
	Vendor string `json:"vendor"`
	// Model is the product name, for example "NVIDIA A100-SXM4-80GB".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`
	// MemoryMiB is the device's usable memory.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777216
	MemoryMiB int64 `json:"memoryMiB"`
	// SMs is the number of streaming multiprocessors (compute units).
	// +kubebuilder:validation:Minimum=0
	SMs int32 `json:"sms,omitempty"`
	// NUMA is the NUMA node the device hangs off; absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NUMA *int32 `json:"numa,omitempty"`
	// PCIBusID is the device's PCI address, for example "0000:1b:00.0".
	// +kubebuilder:validation:MaxLength=32
	PCIBusID string `json:"pciBusID,omitempty"`
	// PCIeGeneration is the newest PCIe generation that the device can use.
	// +kubebuilder:validation:Minimum=0
	PCIeGeneration int32 `json:"pcieGeneration,omitempty"`
	// PCIeLanes is how many PCIe lanes the device can use.
	// +kubebuilder:validation:Minimum=0
	PCIeLanes int32 `json:"pcieLanes,omitempty"`
	// NVLinks is how many NVLinks the device has.
	// +kubebuilder:validation:Minimum=0
	NVLinks int32 `json:"nvlinks,omitempty"`
	// ComputeCapability is NVIDIA's, such as 9.0.
	// +kubebuilder:validation:MaxLength=16
	ComputeCapability string `json:"computeCapability,omitempty"`
	// Fabric is the NVLink domain across nodes that the device belongs to:
	// <cluster UUID>.<clique>.
	// +kubebuilder:validation:MaxLength=128
	Fabric string `json:"fabric,omitempty"`
	// MIG describes how the device may be cut; absent when it cannot.
	MIG *MIG `json:"mig,omitempty"`
}

// MIG is a device's ability to be cut into hardware slices.
type MIG struct {
	// Profiles are the cuts the device offers, as NVML lists them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Profiles []MIGProfile `json:"profiles,omitempty"`
	// Enabled: MIG mode is on. Where another device plugin serves, a device in MIG mode
	// is sold in its instances alone, and not at all while it has none.
	Enabled bool `json:"enabled,omitempty"`
	// Instances are the cuts that exist. When an administrator or
	// another program has cut the device, pods get these and no others, and the device is
	// not sold whole or shared.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Instances []MIGInstance `json:"instances,omitempty"`
}

// MIGInstance is one existing slice.
type MIGInstance struct {
	// Profile is the name of its profile, for example "1g.10gb".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Profile string `json:"profile"`
	// ProfileID is the GPU instance profile id, where the name alone is not enough.
	// +kubebuilder:validation:Minimum=0
	ProfileID *int32 `json:"profileID,omitempty"`
	// Start is the memory slice at which it begins.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	Start int32 `json:"start"`
	// UUID is the MIG device's own UUID.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._:/-]+$`
	// +kubebuilder:validation:MaxLength=128
	UUID string `json:"uuid,omitempty"`
	// Owned: the agent made it for a pod and removes it after that. A device whose
	// instances are all owned is still cut on demand.
	Owned bool `json:"owned,omitempty"`
}

// MIGProfile is one kind of slice and the places it may take.
type MIGProfile struct {
	// Name is NVIDIA's name, for example "1g.10gb".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`
	// ID is the GPU instance profile id, which tells profiles of equal name apart.
	// +kubebuilder:validation:Minimum=0
	ID int32 `json:"id"`
	// MemoryMiB is the memory of one instance.
	// +kubebuilder:validation:Minimum=1
	MemoryMiB int64 `json:"memoryMiB"`
	// Starts are the memory slices at which an instance may begin.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Starts []int32 `json:"starts"`
	// Size is how many memory slices an instance covers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Size int32 `json:"size"`
}

// LinkClass is how two devices reach each other, best first.
// +kubebuilder:validation:Enum=NVSwitch;NVLink;PIX;PXB;PHB;NODE;SYS
type LinkClass string

// Link joins every pair of the devices it names.
type Link struct {
	// Between are the indexes of the joined devices.
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=15
	Between []int32 `json:"between"`
	// Class is the kind of link.
	Class LinkClass `json:"class"`
	// Count is the number of NVLinks of each pair; 0 for other classes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
}

// GPUNodeStatus is what changes while the node runs.
type GPUNodeStatus struct {
	// Devices holds health and telemetry by device index. A device without an
	// entry is healthy and unmeasured.
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=16
	Devices []DeviceStatus `json:"devices,omitempty"`
	// MeasuredAt is when the agent last measured what it wrote here. Telemetry that is
	// older than the scheduler allows counts as unknown.
	MeasuredAt *metav1.Time `json:"measuredAt,omitempty"`
	// Conditions: DriverReady (the agent can talk to the driver) and DevicesHealthy
	// (all devices are healthy).
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a GPUNode.
const (
	DriverReady    = "DriverReady"
	DevicesHealthy = "DevicesHealthy"
)

// Health is the state of a device.
// +kubebuilder:validation:Enum=Healthy;Suspect;Degraded;Failed
type Health string

// The states a device may be in. New pods are kept off all but Healthy ones.
const (
	Healthy  Health = "Healthy"
	Suspect  Health = "Suspect"
	Degraded Health = "Degraded"
	Failed   Health = "Failed"
)

// DeviceStatus is the health and telemetry of one device.
type DeviceStatus struct {
	// Index is the device's index in spec.devices.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	Index int32 `json:"index"`
	// UUID is the device this is about. When spec.devices has another one at the
	// index, the entry is of a card that was replaced and does not count.
	// +kubebuilder:validation:MaxLength=128
	UUID string `json:"uuid,omitempty"`
	// Health is the device's state.
	Health Health `json:"health"`
	// Reason says why the device is not healthy.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Cause is the code of the worst cause of the device's state, such as NVLinkDown
	// (docs/reference/agent.md); Reason is the sentence about it.
	// +kubebuilder:validation:MaxLength=64
	Cause string `json:"cause,omitempty"`
	// Since is when the device came into this state.
	Since *metav1.Time `json:"since,omitempty"`
	// LastXID is the driver's last error number on the device; absent for none.
	LastXID *int32 `json:"lastXID,omitempty"`
	// UtilizationPercent is the share of time the device was busy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	UtilizationPercent *int32 `json:"utilizationPercent,omitempty"`
	// MemoryUsedMiB is the device memory in use.
	// +kubebuilder:validation:Minimum=0
	MemoryUsedMiB *int64 `json:"memoryUsedMiB,omitempty"`
	// TemperatureCelsius is the device's temperature.
	TemperatureCelsius *int32 `json:"temperatureCelsius,omitempty"`
	// PowerWatts is the device's power draw.
	// +kubebuilder:validation:Minimum=0
	PowerWatts *int32 `json:"powerWatts,omitempty"`
	// OverMemory are pods whose processes use more of the device's memory than the pod was
	// given of it. Pods that keep to their share are not listed.
	// +listType=map
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=16
	OverMemory []MemoryUse `json:"overMemory,omitempty"`
}

// MemoryUse is how much of a device's memory a pod uses.
type MemoryUse struct {
	// PodUID is the UID of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	PodUID string `json:"podUID"`
	// UsedMiB is what its processes have allocated on the device, when this was written.
	// +kubebuilder:validation:Minimum=0
	UsedMiB int64 `json:"usedMiB"`
	// GivenMiB is what its record says it was given of the device.
	// +kubebuilder:validation:Minimum=0
	GivenMiB int64 `json:"givenMiB"`
}

// GPUNodeList is a list of GPUNodes.
// +kubebuilder:object:root=true
type GPUNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GPUNode `json:"items"`
}
