package device

// Allocation is what one container was given of one resource: what has to be made real
// before it starts.
type Allocation struct {
	// ID names the allocation: a hash of resource and device IDs, so that kubelet's
	// repeated calls for the same devices name the same allocation.
	ID string
	// Namespace, Pod, PodUID and Container name its holder.
	Namespace, Pod, PodUID, Container string
	// Resource is the extended resource that was asked for.
	Resource string
	Devices  []Grant
	// Admin: the container may look at the devices as they are, whatever uses them.
	// Nothing is changed on them for it, and other containers can be given them.
	Admin bool
}

// Grant is one device of an allocation, or a part of it. Without Turn, Profile and
// amounts it is the whole device.
type Grant struct {
	// UUID is the GPU's, or that of a MIG instance that exists already.
	UUID string
	// Turn: one of several containers that take turns on the device. Number is the
	// turn's, from 0: turns may differ in what they get.
	Turn   bool
	Number int
	// Profile and Start are of a MIG instance: its profile's name and the memory slice
	// it begins at. With the UUID of a GPU the instance is to be made.
	Profile string
	Start   int
	// MemoryMiB and ComputeMilli are of a share: its memory, and its compute in
	// thousandths of the device's. 0 means that nothing limits it.
	MemoryMiB    int64
	ComputeMilli int
}

// Answer is what kubelet hands to the container runtime for an allocation.
type Answer struct {
	// Edits are environment, device nodes and mounts that kubelet passes on itself.
	// Hooks cannot be passed this way.
	Edits Edits
	// CDI are fully qualified names of CDI devices.
	CDI []string
}
