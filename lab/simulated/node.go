package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// node is the hardware of one node. What is built in never changes; mu guards the rest.
type node struct {
	name     string
	options  Options
	hardware fleet.Hardware
	links    []device.Link

	mu       sync.Mutex
	gpus     []*gpu
	faults   []happened
	noDriver bool
	changed  chan struct{} // closed, and replaced, when faults change
	events   mailbox
}

// gpu is one device: what it is, and its state.
type gpu struct {
	device.Device // MIG.Enabled and MIG.Instances are not kept here
	climate       climate
	nvlinks       int // that it can use: none where the fleet has it on PCIe alone

	moved motion
	at    time.Time // of moved; zero before the first look
	uses  []Use

	cut       bool // MIG mode is on
	instances []device.Instance

	trouble  trouble
	counters counters
}

// counters only grow; a reset puts the volatile one back.
type counters struct {
	eccVolatile, eccTotal int
	linkErrors            int
	remapped              int
}

func newNode(described *v1alpha1.GPUNode, o Options) (*node, error) {
	n := &node{name: described.Name, options: o, changed: make(chan struct{})}
	linked := map[int32]bool{}
	for _, l := range described.Spec.Links {
		between := make([]int, 0, len(l.Between))
		for _, i := range l.Between {
			between = append(between, int(i))
			linked[i] = linked[i] || l.Class == "NVSwitch" || l.Class == "NVLink"
		}
		n.links = append(n.links, device.Link{Between: between, Class: string(l.Class), Count: int(l.Count)})
	}
	for _, d := range described.Spec.Devices {
		n.hardware = fleet.HardwareOf(d.Vendor, d.Model) // one model per node
		n.gpus = append(n.gpus, newGPU(d, n.hardware, linked[d.Index], o.Seed))
	}
	if err := n.remember(); err != nil {
		return nil, err
	}
	return n, nil
}

func newGPU(d v1alpha1.Device, h fleet.Hardware, linked bool, seed uint64) *gpu {
	g := &gpu{
		Device: device.Device{
			Index: int(d.Index), Minor: int(d.Index), UUID: d.UUID, Vendor: d.Vendor, Model: d.Model,
			Brand: h.Brand, Architecture: h.Architecture, ComputeCapability: h.ComputeCapability,
			Serial:    strconv.FormatUint(hash(0, d.UUID, "serial")%1e13, 10),
			MemoryMiB: d.MemoryMiB, SMs: int(d.SMs), NUMA: -1,
			PCIBusID: d.PCIBusID, PCIDeviceID: h.PCIDeviceID, PCIeRoot: rootOf(int(d.Index)), PCIeGen: h.PCIeGeneration, PCIeWidth: h.PCIeLanes,
		},
		climate: newClimate(h.IdleWatts, h.MaxWatts, unit(hash(seed, d.UUID, "place"))),
	}
	if d.NUMA != nil {
		g.NUMA = int(*d.NUMA)
	}
	if linked {
		g.nvlinks = max(1, h.NVLinks)
		g.NVLinks = g.nvlinks
	}
	if d.MIG != nil {
		g.MIG = &device.MIG{}
		for _, p := range d.MIG.Profiles {
			profile := device.Profile{
				ID: int(p.ID), Name: p.Name, MemoryMiB: p.MemoryMiB, Size: int(p.Size),
				SMs: h.ProfileSMs(p.ID), ComputeSlices: fleet.ProfileSlices(p.Name),
			}
			for _, start := range p.Starts {
				profile.Starts = append(profile.Starts, int(start))
			}
			g.MIG.Profiles = append(g.MIG.Profiles, profile)
		}
		slices.SortFunc(g.MIG.Profiles, func(a, b device.Profile) int { return cmp.Compare(a.ID, b.ID) })
	}
	return g
}

// rootOf puts two devices on each PCIe root complex, as many servers do.
func rootOf(index int) string { return fmt.Sprintf("pci0000:%02x", 0x10+16*(index/2)) }

// inventory needs the lock.
func (n *node) inventory() *device.Inventory {
	inv := &device.Inventory{Driver: n.hardware.Driver, CUDA: n.hardware.CUDA}
	for _, g := range n.gpus {
		d := g.Device
		if g.MIG != nil {
			d.MIG = &device.MIG{Enabled: g.cut, Instances: slices.Clone(g.instances)}
			for _, p := range g.MIG.Profiles {
				p.Starts = slices.Clone(p.Starts)
				d.MIG.Profiles = append(d.MIG.Profiles, p)
			}
		}
		inv.Devices = append(inv.Devices, d)
	}
	for _, l := range n.links {
		l.Between = slices.Clone(l.Between)
		inv.Links = append(inv.Links, l)
	}
	return inv
}

// find returns the device with a UUID; it needs no lock.
func (n *node) find(uuid string) (*gpu, error) {
	for _, g := range n.gpus {
		if g.UUID == uuid {
			return g, nil
		}
	}
	return nil, fmt.Errorf("device %.80q: %w", uuid, device.ErrNotFound)
}

// advance moves all devices to a time. It needs the lock, and is called before an input
// changes.
func (n *node) advance(now time.Time) {
	for _, g := range n.gpus {
		g.advance(now, n.options.Speed)
	}
}

func (g *gpu) advance(now time.Time, speed float64) {
	if g.at.IsZero() {
		g.moved, g.at = g.climate.atRest(), now
	}
	// A clock that is put back does not undo what was.
	if passed := now.Sub(g.at); passed > 0 {
		g.moved = g.climate.advance(g.moved, passed.Seconds()*speed, target(g.uses), g.trouble.powerShare())
		g.at = now
	}
	g.moved.heat = max(g.moved.heat, g.trouble.hot)
}

// setLoad replaces what runs on the node. Uses of devices that it does not have are ignored.
func (n *node) setLoad(uses []Use) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advance(n.options.Clock())
	for _, g := range n.gpus {
		g.uses = nil
	}
	for _, u := range uses {
		if u.Device >= 0 && u.Device < len(n.gpus) {
			g := n.gpus[u.Device]
			g.uses = append(g.uses, u)
		}
	}
}
