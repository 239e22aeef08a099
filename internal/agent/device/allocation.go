package device

// Allocation is what one container was given of one resource.
type Allocation struct {
	// ID names the allocation: a hash of the resource and kubelet's device IDs, so that
	// it is the same after every restart.
	ID string
	// Namespace, Pod, PodUID and Container say who holds it.
	Namespace, Pod, PodUID, Container string
	Resource                          string
	Devices                           []Grant
}

// Grant is one device of an allocation, or a part of one. A whole device has only its
// UUID.
type Grant struct {
	// UUID is the physical GPU's, whatever part of it is granted.
	UUID string
	// Turn: a turn on a device that is sold several times over, without amounts.
	Turn bool
	// Profile and Start are of a MIG slice: its profile such as 1g.18gb, and the memory
	// slice it begins at.
	Profile string
	Start   int
	// MemoryMiB and ComputeMilli (thousandths of the device) are of a share by amount.
	MemoryMiB    int64
	ComputeMilli int
}
