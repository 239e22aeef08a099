package record

import "github.com/tangram-dev/tangram/api/names"

// Version is the format's version, the only one Decode accepts.
const Version = 1

// Limits of a record, far above what a pod can use: they keep the cost of a hostile record small.
const (
	// MaxSize is the longest record in bytes. An object's annotations may hold
	// 256 KiB together; a record of 16 devices takes about 1 KiB.
	MaxSize = 64 << 10
	// MaxContainers is how many containers a record may list.
	MaxContainers = 256
	// MaxDevices is how many different devices a record may name. A node has at
	// most 16; 64 leaves room, and lets one machine word hold the set.
	MaxDevices = 64
	// MaxIndex is the highest device index.
	MaxIndex = 1023

	maxNode      = 253          // a DNS subdomain, as node names are
	maxContainer = 63           // a DNS label, as container names are
	maxResource  = 253 + 1 + 63 // a qualified name: prefix, slash, name
	maxUUID      = 128          // as in GPUNode
	maxProfile   = 32           // as in GPUNode
	maxMemory    = 1 << 24      // as in GPUNode
	maxStart     = 7            // a GPU has 8 memory slices
)

// Record says which devices of one node a pod holds. Containers that hold none
// are not listed, and neither is a pod that holds none: it has no record.
//
// Invariant: at least one container; container names are unique.
// Invariant: one index has one UUID and one UUID one index, in all containers.
type Record struct {
	// Node is the name of the node the devices are on.
	Node string
	// Containers are the pod's containers that hold devices, in any order, which is kept. Init
	// containers are listed too, and may hold what a container gets after them.
	Containers []Container
}

// Container says which devices one container holds.
//
// Invariant: at least one device, none twice.
type Container struct {
	// Name is the container's name in its pod.
	Name string
	// Resource is the extended resource that was asked for, such as nvidia.com/gpu.
	Resource string
	// Devices are the devices held, in any order, which is kept.
	Devices []Device
}

// Device names one device, and how much of it when it is not all: a share has
// memory or compute, a slice a MIG profile.
type Device struct {
	// Index is the device's number on its node, 0 to MaxIndex.
	Index int
	// UUID identifies the device across reboots; empty where it is not known: on nodes without an agent.
	UUID string
	// MemoryMiB and ComputeMilli are a share's memory, and its compute in
	// thousandths of the device's. Both are 0 for a whole device and a slice.
	MemoryMiB    int64
	ComputeMilli int
	// Turn: the share is a turn on a time-sliced device, without amounts.
	Turn bool
	// MIG is a slice's profile, Start the memory slice it begins at.
	MIG   string
	Start int
}

// Error says what is wrong with a record.
type Error struct {
	// Field is the path of the offending field, such as
	// containers[1].devices[0].index; empty when it is the record as a whole.
	Field string
	// Problem is what the field must be, and what it is.
	Problem string
}

// Error prints the annotation, the field and the problem.
func (e *Error) Error() string {
	if e.Field == "" {
		return names.AnnotationDevices + ": " + e.Problem
	}
	return names.AnnotationDevices + ": " + e.Field + ": " + e.Problem
}
