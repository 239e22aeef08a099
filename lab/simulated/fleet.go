package simulated

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// Options of a simulation; the zero value is a good one.
type Options struct {
	// Clock tells the time; nil for the real one.
	Clock func() time.Time
	// Speed is how many simulated seconds pass in one: above 1, devices heat up faster.
	// 0 means 1.
	Speed float64
	// Seed varies the devices' small differences.
	Seed uint64
	// DeviceNodes are host paths of device nodes: a container with device i gets the
	// i-th as /dev/nvidia<i>. Empty for none.
	DeviceNodes []string
	// Memory is a folder that keeps MIG mode and instances over a restart, as hardware
	// does; empty to begin anew.
	Memory string
}

// Fleet is the hardware of a fleet's nodes. Its methods may be called at the same time.
type Fleet struct {
	order []string
	nodes map[string]*node
}

// New makes the hardware of all nodes of a fleet that have GPUs. It reads, and creates,
// the folder of Options.Memory.
func New(f *fleet.Fleet, o Options) (*Fleet, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Speed < 0 || o.Speed > 1e6 {
		return nil, fmt.Errorf("speed %g is not between 0 and 1000000", o.Speed)
	}
	s := &Fleet{nodes: map[string]*node{}}
	for _, described := range f.GPUNodes() {
		n, err := newNode(described, o)
		if err != nil {
			return nil, fmt.Errorf("simulate node %s: %w", described.Name, err)
		}
		s.order = append(s.order, n.name)
		s.nodes[n.name] = n
	}
	return s, nil
}

// Nodes are the names of the nodes that have GPUs, in the fleet's order.
func (s *Fleet) Nodes() []string { return append([]string(nil), s.order...) }

// Backend returns the hardware of a node, nil for a node that Nodes does not list. Each
// call returns another use of the same hardware: closing one leaves the others.
func (s *Fleet) Backend(name string) device.Backend {
	n := s.nodes[name]
	if n == nil {
		return nil
	}
	return &backend{node: n}
}

// SetFaults replaces the faults of a node. Faults that were not there before happen now:
// a new xid, ecc, recovery or gone is also an event. A fault that is listed twice happens
// twice. An error names a device that the node does not have; then nothing changes.
func (s *Fleet) SetFaults(name string, faults []fleet.Fault) error {
	n := s.nodes[name]
	if n == nil {
		return fmt.Errorf("node %s: %w", name, device.ErrNotFound)
	}
	if err := n.setFaults(faults); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	return nil
}

// hash is a number that follows from words, for differences that look random and are
// always the same.
func hash(seed uint64, words ...string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, seed)
	for _, w := range words {
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(w))
	}
	return mix(h.Sum64())
}

// mix spreads the bits of a number over all of it (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit is a hash as a number from 0 to 1.
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
