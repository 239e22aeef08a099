package device

import "strings"

// Inventory is what is built into a node.
type Inventory struct {
	// Driver and CUDA are versions such as 580.159.03 and 13.0; empty when unknown.
	Driver, CUDA string
	// Devices are sorted by Index.
	Devices []Device
	// Links say how pairs of devices reach each other, by the class names of GPUNode:
	// NVSwitch, NVLink, PIX, PXB, PHB, NODE, SYS. A pair that is not listed is SYS.
	Links []Link
}

// Device is one physical GPU.
type Device struct {
	// Index is the number that nvidia-smi shows, Minor that of its device node.
	Index, Minor int
	UUID         string
	// Vendor is nvidia, amd, intel or ascend.
	Vendor string
	// Model is the product name as the driver says it; Brand and Architecture may be
	// empty.
	Model, Brand, Architecture string
	Serial                     string
	// ComputeCapability is such as 9.0; empty when unknown.
	ComputeCapability string
	MemoryMiB         int64
	SMs               int
	// NUMA is the NUMA node, -1 when unknown.
	NUMA int
	// PCIBusID is such as 0000:1b:00.0, PCIDeviceID such as 0x233510de.
	PCIBusID    string
	PCIDeviceID string
	// PCIeRoot names the PCIe root complex that the device hangs on, such as
	// pci0000:15; empty when unknown.
	PCIeRoot string
	// PCIeGen and PCIeWidth are the most the device can do; NVLinks is how many NVLinks
	// it has, active or not. 0 when unknown.
	PCIeGen, PCIeWidth, NVLinks int
	// Fabric is the NVLink domain that spans nodes: <cluster UUID>.<clique>; empty for
	// none.
	Fabric string
	// MIG describes how the device can be cut; nil when it cannot.
	MIG *MIG
}

// MIG is a device's ability to be cut, and its cuts.
type MIG struct {
	// Enabled: MIG mode is on. Profiles may be listed without it.
	Enabled bool
	// Fixed: the mode changes with a reset of the device only, so another one cannot be
	// promised (Ampere).
	Fixed bool
	// Profiles are sorted by ID.
	Profiles []Profile
	// Instances are those that exist, made by the agent or by others, sorted by Start.
	Instances []Instance
}

// Profile is one kind of cut.
type Profile struct {
	// ID is what nvidia-smi mig -lgip lists, Name such as 1g.18gb+me.
	ID   int
	Name string
	// MemoryMiB and SMs are of one instance, ComputeSlices its slices of compute.
	MemoryMiB          int64
	SMs, ComputeSlices int
	// Starts are the memory slices an instance may begin at, Size how many it covers.
	Starts []int
	Size   int
}

// Instance is one cut that exists.
type Instance struct {
	// UUID is the MIG device's, MIG-...; empty while it has no compute instance.
	UUID string
	// GPUInstance and ComputeInstance are NVML's ids.
	GPUInstance, ComputeInstance int
	ProfileID                    int
	Profile                      string
	Start, Size                  int
	MemoryMiB                    int64
}

// Link joins each pair of the devices it names, by index.
type Link struct {
	Between []int
	Class   string
	// Count is the number of NVLinks of each pair; 0 for other classes.
	Count int
}

// Find returns the device with a UUID, or nil.
func (inv *Inventory) Find(uuid string) *Device {
	for i := range inv.Devices {
		if inv.Devices[i].UUID == uuid {
			return &inv.Devices[i]
		}
	}
	return nil
}

// Parent returns the device that a MIG instance belongs to and the instance, or nils.
func (inv *Inventory) Parent(instance string) (*Device, *Instance) {
	for i := range inv.Devices {
		if found := inv.Devices[i].Instance(func(x *Instance) bool { return x.UUID == instance && instance != "" }); found != nil {
			return &inv.Devices[i], found
		}
	}
	return nil, nil
}

// Instance returns the first MIG instance that is wanted, or nil.
func (d *Device) Instance(wanted func(*Instance) bool) *Instance {
	if d == nil || d.MIG == nil {
		return nil
	}
	for i := range d.MIG.Instances {
		if x := &d.MIG.Instances[i]; wanted(x) {
			return x
		}
	}
	return nil
}

// InstanceAt returns the MIG instance of a profile that begins at a memory slice, or nil.
func (d *Device) InstanceAt(profile string, start int) *Instance {
	return d.Instance(func(x *Instance) bool { return x.Start == start && SameProfile(x.Profile, profile) })
}

// ProfileName is the name of a MIG profile as resources spell it: 1g.18gb.me for 1g.18gb+me.
func ProfileName(name string) string { return strings.ReplaceAll(name, "+", ".") }

// SameProfile compares names of MIG profiles in either spelling.
func SameProfile(a, b string) bool { return ProfileName(a) == ProfileName(b) }
