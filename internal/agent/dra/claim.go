package dra

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Claim is a claim that was prepared, or is being prepared: what the journal keeps. Its
// fields are part of the agent's format on disk.
type Claim struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Devices   []Held `json:"devices"`
}

// String names the claim for messages.
func (c *Claim) String() string { return fmt.Sprintf("ResourceClaim %s/%s", c.Namespace, c.Name) }

// Held is one device of a claim.
type Held struct {
	// Request is the request of the claim, without that of a subrequest; Pool, Device and
	// Share name what was allocated.
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	Share   string `json:"share,omitempty"`
	// Admin: access beside the claim or container that has the device.
	Admin bool `json:"admin,omitempty"`
	// GPU is the card's UUID, Instance that of a MIG instance that another program has cut.
	GPU      string `json:"gpu"`
	Instance string `json:"instance,omitempty"`
	// Profile and Start are of a MIG instance.
	Profile string `json:"profile,omitempty"`
	Start   int    `json:"start,omitempty"`
	// MemoryMiB and ComputeMilli are of a share of a GPU: its memory, and its compute in
	// thousandths, 0 for no limit. Without memory it is no share.
	MemoryMiB    int64 `json:"memoryMiB,omitempty"`
	ComputeMilli int   `json:"computeMilli,omitempty"`
}

// allocation is what has to be made real for the device.
func (h *Held) allocation(c *Claim) device.Allocation {
	grant := device.Grant{UUID: cmp.Or(h.Instance, h.GPU), Profile: h.Profile, Start: h.Start, MemoryMiB: h.MemoryMiB, ComputeMilli: h.ComputeMilli}
	return device.Allocation{
		ID: h.id(c), Namespace: c.Namespace, Pod: c.Name, Container: h.Device, Resource: Driver,
		Devices: []device.Grant{grant}, Admin: h.Admin,
	}
}

// id names the allocation: one for each device of a claim, because containers may use the
// requests of a claim one by one.
func (h *Held) id(c *Claim) string {
	sum := sha256.Sum256([]byte("claim\x00" + c.UID + "\x00" + h.Device + "\x00" + h.Share))
	return hex.EncodeToString(sum[:16])
}

// read says what a claim was given of this node's pool. The error names the field.
func read(c *resourceapi.ResourceClaim, node string, parts []Part) (*Claim, error) {
	out := &Claim{UID: string(c.UID), Namespace: c.Namespace, Name: c.Name}
	if c.Status.Allocation == nil {
		return nil, fmt.Errorf("%s: status.allocation: the claim is not allocated", out)
	}
	for i, config := range c.Status.Allocation.Devices.Config {
		if config.Opaque != nil && config.Opaque.Driver == Driver {
			return nil, fmt.Errorf("%s: status.allocation.devices.config[%d]: driver %s takes no parameters; remove them from the %s", out, i, Driver, source(config.Source))
		}
	}
	for i, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != Driver {
			continue
		}
		field := fmt.Sprintf("%s: status.allocation.devices.results[%d]", out, i)
		if r.Pool != node {
			return nil, fmt.Errorf("%s.pool: %q is not the pool of this node, %q", field, r.Pool, node)
		}
		k := slices.IndexFunc(parts, func(p Part) bool { return p.Name == r.Device })
		if k < 0 {
			return nil, fmt.Errorf("%s.device: %q is not on this node any more: %s. Delete the pod, so that its claim is allocated again", field, r.Device, present(parts))
		}
		p := parts[k]
		request, _, _ := strings.Cut(r.Request, "/")
		h := Held{Request: request, Pool: r.Pool, Device: r.Device, Admin: r.AdminAccess != nil && *r.AdminAccess, GPU: p.GPU.UUID, Instance: p.Instance}
		if p.Profile != nil {
			h.Profile, h.Start = p.Profile.Name, p.Start
		}
		if r.ShareID != nil {
			h.Share = string(*r.ShareID)
		}
		if h.Share != "" || len(r.ConsumedCapacity) > 0 {
			if err := h.amounts(&r, p); err != nil {
				return nil, fmt.Errorf("%s.%w", field, err)
			}
		}
		out.Devices = append(out.Devices, h)
	}
	if len(out.Devices) == 0 {
		return nil, fmt.Errorf("%s: status.allocation.devices.results: none is of driver %s", out, Driver)
	}
	return out, nil
}

// amounts reads what a claim consumes of a GPU that several may have. All of its memory is
// the whole GPU: nothing is left for others.
func (h *Held) amounts(r *resourceapi.DeviceRequestAllocationResult, p Part) error {
	if p.Shares == 0 {
		return fmt.Errorf("shareID: GPUs of this node are not shared between claims (--shares-per-gpu); delete the pod, so that its claim is allocated again")
	}
	memory, ok := r.ConsumedCapacity[capacityMemory]
	if !ok || memory.Sign() <= 0 {
		return fmt.Errorf("consumedCapacity[%s]: must be more than 0, is %s", capacityMemory, memory.String())
	}
	const mib = 1 << 20
	bytes := memory.Value()
	if bytes > p.GPU.MemoryMiB*mib {
		return fmt.Errorf("consumedCapacity[%s]: %s is more than the GPU has, %d MiB", capacityMemory, memory.String(), p.GPU.MemoryMiB)
	}
	cores := r.ConsumedCapacity[capacityCores]
	if n := cores.Value(); n < 0 || n > 100 {
		return fmt.Errorf("consumedCapacity[%s]: must be from 0 to 100, is %s", capacityCores, cores.String())
	}
	if bytes > (p.GPU.MemoryMiB-1)*mib {
		return nil
	}
	h.MemoryMiB, h.ComputeMilli = (bytes+mib-1)/mib, int(cores.Value())*10
	return nil
}

func source(s resourceapi.AllocationConfigSource) string {
	if s == resourceapi.AllocationConfigSourceClass {
		return "DeviceClass"
	}
	return "claim"
}

// present lists the GPUs of a node, for a message.
func present(parts []Part) string {
	var names []string
	for _, p := range parts {
		if p.Profile == nil {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "the node has no GPU to give"
	}
	return "it has " + strings.Join(names, ", ")
}

// same says whether two readings of a claim are the same allocation.
func (c *Claim) same(o *Claim) bool { return slices.Equal(c.Devices, o.Devices) }
