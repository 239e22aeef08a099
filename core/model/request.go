package model

import "fmt"

// Phase says when a container runs, which decides with which containers it may share
// devices.
type Phase uint8

// Main containers run together. An Init container runs before them, alone but
// for the sidecars started earlier, and hands its devices on. A Sidecar starts
// among the init containers and stays.
const (
	Main Phase = iota
	Init
	Sidecar
)

// Container is one container's part of a request.
type Container struct {
	Name  string
	Phase Phase
	// Resource is the adapter's name for what is asked for; core only passes it on.
	Resource string
	// Count is how many devices it asks for; 0 is allowed.
	Count int
	// Part is how much of each device.
	Part Part
}

// Workload is what kind of work a request does, when its owner said so.
type Workload uint8

// The kinds of seed 003.
const (
	AnyWorkload Workload = iota
	Training
	Inference
	Development
)

// Want is a rule on a node attribute: its value must be one of the given.
type Want struct {
	Key    string
	Values []string
}

// Request is what one holder asks for: devices of one vendor on one node, all
// whole, all shares or all slices.
type Request struct {
	Vendor Vendor
	// Containers in the order of declaration: init containers and sidecars first. They
	// determine Count and which container gets which of the chosen devices.
	Containers []Container

	// MinMemory is the least nominal memory of each device; 0 for any.
	MinMemory MiB
	// UseModels, when not empty, are the only models allowed; AvoidModels are
	// refused.
	UseModels, AvoidModels []GPUModel
	// ProfileModels, when not empty, are the only models the scheduler profile
	// hands out; they bind together with UseModels.
	ProfileModels []GPUModel
	// UseUUIDs and UseIndexes, when not empty, are the only devices allowed;
	// AvoidUUIDs are refused.
	UseUUIDs, AvoidUUIDs []string
	UseIndexes           []int
	// Attributes the node must have.
	Attributes []Want
	// PreferModels are the models the user prefers, best first.
	PreferModels []GPUModel

	// Require and Prefer say how close the devices must be and should be. For a
	// single holder a level only means that its node has a domain there.
	Require, Prefer Closeness

	// Placement says how parts are laid on a node's devices, NodePlacement which
	// nodes are filled first.
	Placement, NodePlacement Placement
	// Affinity are the rules on other holders on the same device or node. All must hold.
	Affinity []AffinityRule
	// Labels are the holder's own, sorted by Label.Compare: affinity rules of other
	// holders match them.
	Labels []Label

	// Host and Extras are what the holder needs of its node beside devices.
	Host   Host
	Extras Extras

	// Priority is the pod's priority, larger first, as in Kubernetes.
	Priority int32
	// TenantPriority ranks the tenant, 1..100: the priority objective gives better
	// hardware to higher values. 0: unspecified, any hardware suits.
	TenantPriority int
	Workload       Workload
}

// Kind is the kind of devices asked for: that of the first container that asks.
func (r *Request) Kind() PartKind {
	for _, c := range r.Containers {
		if c.Count > 0 {
			return c.Part.Kind
		}
	}
	return Whole
}

// Count is how many devices the holder needs at its peak, counting a device once
// for each container that runs at the same time: the larger of what
// main containers and sidecars hold together and what any init container needs
// beside the sidecars started before it.
func (r *Request) Count() int {
	peak, sidecars, mains := 0, 0, 0
	for _, c := range r.Containers {
		switch c.Phase {
		case Main:
			mains += c.Count
		case Sidecar:
			sidecars += c.Count
			peak = max(peak, sidecars)
		case Init:
			peak = max(peak, sidecars+c.Count)
		}
	}
	return max(peak, sidecars+mains)
}

// Distinct is how many different devices the request needs at least: of whole
// devices all it counts, of shares what its largest container asks for; slices may
// all be of one.
func (r *Request) Distinct() int {
	switch r.Kind() {
	case Whole:
		return r.Count()
	case Slice:
		return 1
	}
	most := 0
	for _, c := range r.Containers {
		most = max(most, c.Count)
	}
	return most
}

// Share hands the chosen devices to the containers. The result has one mask per
// container. Containers that run at the same time never share a device; an init
// container's devices are used again by those after it. The set must have
// Count devices.
func (r *Request) Share(set Mask) []Mask {
	out := make([]Mask, len(r.Containers))
	var kept Mask // devices of sidecars and main containers, held to the end
	for i, c := range r.Containers {
		if c.Phase != Init {
			out[i] = (set &^ kept).Lowest(c.Count)
			kept |= out[i]
		}
	}
	// An init container is over before main containers and later sidecars start,
	// so only sidecars started before it are in its way. Kubelet hands an init
	// container's devices on in the same order.
	var sidecars Mask
	for i, c := range r.Containers {
		switch c.Phase {
		case Sidecar:
			sidecars |= out[i]
		case Init:
			out[i] = (set &^ sidecars).Lowest(c.Count)
		}
	}
	return out
}

// Validate checks what Fit relies on and names the field that is wrong.
func (r *Request) Validate() error {
	if r.Vendor.Index() < 0 {
		return fmt.Errorf("vendor: %q is not one of %v", r.Vendor, Vendors)
	}
	for i, c := range r.Containers {
		if c.Count < 0 {
			return fmt.Errorf("containers[%d].count: %d is negative", i, c.Count)
		}
		if c.Count == 0 {
			continue
		}
		if err := c.Part.Validate(); err != nil {
			return fmt.Errorf("containers[%d].part.%w", i, err)
		}
		if c.Part.Kind != r.Kind() {
			return fmt.Errorf("containers[%d].part.kind: whole devices, shares and slices in one request", i)
		}
	}
	if n := r.Count(); n < 1 || n > MaxDevices {
		return fmt.Errorf("containers: %d devices in all, must be 1 to %d", n, MaxDevices)
	}
	if r.MinMemory < 0 {
		return fmt.Errorf("minMemory: %d is negative", r.MinMemory)
	}
	if err := r.Extras.Validate(); err != nil {
		return err
	}
	for i, rule := range r.Affinity {
		if err := rule.Validate(); err != nil {
			return fmt.Errorf("affinity[%d].%w", i, err)
		}
	}
	switch {
	case r.Require.Link > NVSwitch:
		return fmt.Errorf("require.link: %d is not a class", r.Require.Link)
	case r.Prefer.Link > NVSwitch:
		return fmt.Errorf("prefer.link: %d is not a class", r.Prefer.Link)
	}
	return nil
}
