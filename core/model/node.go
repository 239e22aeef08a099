package model

import (
	"fmt"
	"slices"
)

// NodeID names a node.
type NodeID string

// HolderID identifies a holder of devices: a member of a gang (a pod's UID).
type HolderID string

// Vendor is the manufacturer of a device; it decides which extended resource the device
// is sold as.
type Vendor string

// The vendors Tangram knows.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
	Ascend Vendor = "ascend"
)

// Vendors lists the known vendors, in the order reports use. Tables by vendor are
// arrays of NumVendors, indexed by Vendor.Index: a vendor added here has its place in
// all of them.
var Vendors = [...]Vendor{NVIDIA, AMD, Intel, Ascend}

// NumVendors is the number of known vendors.
const NumVendors = len(Vendors)

// Index is the vendor's place in Vendors, or -1 when it is not known.
func (v Vendor) Index() int { return slices.Index(Vendors[:], v) }

// MiB is an amount of memory.
type MiB int64

// Health is the state of a device. New work is kept off all but Healthy ones.
type Health uint8

// The zero Health is Healthy: no fault was reported.
const (
	Healthy Health = iota
	Suspect
	Degraded
	Failed
)

// NUMAUnknown is the NUMA node of a device that did not report one.
const NUMAUnknown = -1

// Device is one physical GPU.
type Device struct {
	// Index is the device's number on its node. Invariant: unique on the node.
	Index int
	// UUID identifies the device in the fleet; empty on nodes without an agent.
	// Invariant: unique on the node unless empty.
	UUID   string
	Vendor Vendor
	Model  GPUModel
	// Memory is what NVML reports, which is a little less than the name says.
	Memory MiB
	// NUMA is the NUMA node of the device, or NUMAUnknown.
	NUMA   int
	Health Health
	// Cordoned: an operator keeps new work off the device.
	Cordoned bool
	// Tenants is how many shares the device may have at once; 0 for any number.
	Tenants int
	// Replicated: the device is sold Tenants times over under the name of whole
	// devices (time-slicing or MPS whose resource was not renamed). A holder that asks
	// for whole devices gets one turn on each, beside other tenants.
	Replicated bool
	// OnePerContainer: a container may have one turn only.
	OnePerContainer bool
	// NoAmounts: shares by amount are not sold, because nothing on the node would give
	// a container its amount. Shares that exist still count.
	NoAmounts bool
	// MIG are the cuts the device offers, sorted by ID; none when it cannot be cut
	// (now). MIGSlices is the number of its memory slices.
	MIG       []MIGProfile
	MIGSlices int
	// Fixed: the device is cut already and stays so. The starts of its profiles are
	// the instances that exist, and it is sold in no other way.
	Fixed bool
}

// NominalMemory is the memory the device is sold with: what it reports, rounded up to
// whole GiB. A V100 "32 GB" reports 32510 MiB and must satisfy a request for 32Gi.
func (d Device) NominalMemory() MiB { return (d.Memory + 1023) / 1024 * 1024 }

// LinkClass is how two devices reach each other, worst first, so that a larger
// value is a better link.
type LinkClass uint8

// The classes of nvidia-smi topo, and NVSwitch, where every pair is joined at
// full speed.
const (
	SYS LinkClass = iota
	NODE
	PHB
	PXB
	PIX
	NVLink
	NVSwitch
)

// Link joins every pair of the devices it names.
type Link struct {
	// Between are device indexes.
	Between []int
	Class   LinkClass
	// Count is the number of NVLinks of each pair; 0 for other classes.
	Count int
}

// Attribute is a fact about a whole node that requests may insist on, in the
// adapter's words (a node label). Only attributes that describe the GPUs belong
// here: nodes that share all of them are interchangeable to the planner.
type Attribute struct{ Key, Value string }

// Node is the inventory of one node. Values are never changed once handed to
// the ledger.
type Node struct {
	ID NodeID
	// Devices are sorted by Index; the position is the device's slot.
	Devices []Device
	Links   []Link
	// Attributes are sorted by Key, keys unique.
	Attributes []Attribute
	// Sellable is how many devices of each vendor may be in use at once, as the
	// node's own agent says (kubelet's allocatable). It may be less than the
	// devices listed.
	Sellable map[Vendor]int
	// Host is the node's processors and memory. It may change without the devices
	// changing, and does not make nodes different kinds.
	Host Host
	// Extras are the other resources the node publishes (allocatable). Like Host they
	// do not make nodes different kinds. What is not listed the node has none of.
	Extras Extras
	// Domains are the node's domains in the network, one value per configured
	// level, outermost first; "" where the node does not say. None means no level.
	Domains []string
	// NUMA is what the node's kubelet demands, of each container's devices when
	// NUMAPerContainer, else of all devices of a pod together.
	NUMA             NUMAPolicy
	NUMAPerContainer bool
}

// Attribute returns the value of a key, and whether the node has it.
func (n *Node) Attribute(key string) (string, bool) {
	for _, a := range n.Attributes {
		if a.Key == key {
			return a.Value, true
		}
	}
	return "", false
}

// Slot finds a device by UUID or, when the UUID is empty, by index. It returns
// -1 when the node has no such device, also when UUID and index disagree about
// a device that has a UUID: then nothing is proven.
func (n *Node) Slot(index int, uuid string) int {
	for slot := range n.Devices {
		d := &n.Devices[slot]
		if uuid != "" && d.UUID != "" {
			if d.UUID == uuid {
				return slot
			}
			continue
		}
		if d.Index == index {
			return slot
		}
	}
	return -1
}

// Validate checks the invariants of the fields and names the one that is
// broken.
func (n *Node) Validate() error {
	if n.ID == "" {
		return fmt.Errorf("id: empty")
	}
	if len(n.Devices) > MaxDevices {
		return fmt.Errorf("devices: %d devices, at most %d", len(n.Devices), MaxDevices)
	}
	seen := make(map[string]int, len(n.Devices))
	for i, d := range n.Devices {
		switch {
		case d.Index < 0:
			return fmt.Errorf("devices[%d].index: %d is negative", i, d.Index)
		case i > 0 && d.Index == n.Devices[i-1].Index:
			return fmt.Errorf("devices[%d].index: %d is there twice", i, d.Index)
		case i > 0 && d.Index < n.Devices[i-1].Index:
			return fmt.Errorf("devices[%d].index: %d is out of order", i, d.Index)
		case d.Vendor.Index() < 0:
			return fmt.Errorf("devices[%d].vendor: %q is not one of %v", i, d.Vendor, Vendors)
		case d.Memory < 0:
			return fmt.Errorf("devices[%d].memory: %d is negative", i, d.Memory)
		}
		if d.UUID == "" {
			continue
		}
		if j, dup := seen[d.UUID]; dup {
			return fmt.Errorf("devices[%d].uuid: %q is also the uuid of devices[%d]", i, d.UUID, j)
		}
		seen[d.UUID] = i
	}
	for i, l := range n.Links {
		if len(l.Between) < 2 {
			return fmt.Errorf("links[%d].between: %d devices, a link joins at least 2", i, len(l.Between))
		}
		for _, index := range l.Between {
			if !slices.ContainsFunc(n.Devices, func(d Device) bool { return d.Index == index }) {
				return fmt.Errorf("links[%d].between: no device has index %d", i, index)
			}
		}
	}
	for i := 1; i < len(n.Attributes); i++ {
		if n.Attributes[i-1].Key >= n.Attributes[i].Key {
			return fmt.Errorf("attributes[%d].key: %q is there twice or out of order", i, n.Attributes[i].Key)
		}
	}
	if n.Host.CPU < 0 || n.Host.Memory < 0 {
		return fmt.Errorf("host: %+v is negative", n.Host)
	}
	if err := n.Extras.Validate(); err != nil {
		return err
	}
	if n.NUMA > OneNUMA {
		return fmt.Errorf("numa: %d is not a policy", n.NUMA)
	}
	for v, count := range n.Sellable {
		if v.Index() < 0 {
			return fmt.Errorf("sellable[%s]: not one of %v", v, Vendors)
		}
		if count < 0 {
			return fmt.Errorf("sellable[%s]: %d is negative", v, count)
		}
	}
	return nil
}
