package dra

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Slice is the content of one ResourceSlice, by a name that stays: devices, or counters.
type Slice struct {
	Name     string
	Devices  []resourceapi.Device
	Counters []resourceapi.CounterSet
}

// Slices lay a pool out: the counters of cards that can be cut, GPUs that cannot be cut
// together in one slice, and one slice for each card that can, so that what happens to one
// card changes one slice. Deterministic.
func (s State) Slices() (out []Slice) {
	describe := s.describer()
	var plain []resourceapi.Device
	var sets []resourceapi.CounterSet
	var cut []Slice
	for i := range s.Inventory.Devices {
		parts := s.Cuts.of(&s.Inventory.Devices[i])
		if !slices.ContainsFunc(parts, func(p Part) bool { return p.Profile != nil }) {
			for _, p := range parts {
				plain = append(plain, describe.device(p))
			}
			continue
		}
		c := countersOf(parts[0].GPU)
		sets = append(sets, c.set())
		card := Slice{Name: fmt.Sprintf("gpu-%d", parts[0].GPU.Minor)}
		for _, p := range parts {
			d := describe.device(p)
			d.ConsumesCounters = c.consumed(p)
			card.Devices = append(card.Devices, d)
		}
		// More would need hardware that does not exist; what is left out can still be
		// reached through the device plugin.
		card.Devices = card.Devices[:min(len(card.Devices), resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures)]
		cut = append(cut, card)
	}
	n := 0
	for some := range slices.Chunk(sets, resourceapi.ResourceSliceMaxCounterSets) {
		out = append(out, Slice{Name: fmt.Sprintf("counters-%d", n), Counters: some})
		n++
	}
	if len(plain) > 0 || len(cut) == 0 { // a pool without devices says that there are none
		out = append(out, Slice{Name: "gpus", Devices: plain})
	}
	return append(out, cut...)
}

// counters are what the parts of one card draw on: each memory slice once, and the media
// engines of which one instance alone may have more than its share (+me). MIG's other
// limits follow from the memory slices: every set of instances that do not overlap, with
// one +me at most, can exist (shared tables of 14 models, checked by enumeration).
type counters struct {
	name   string
	slices int
	media  bool
}

const mediaCounter = "media-extensions"

func countersOf(d *device.Device) counters {
	c := counters{name: fmt.Sprintf("gpu-%d-counter-set", d.Minor)}
	for _, p := range d.MIG.Profiles {
		for _, start := range p.Starts {
			c.slices = max(c.slices, start+p.Size)
		}
		c.media = c.media || extended(p.Name)
	}
	return c
}

// extended says whether a profile has the media engines that only one instance may have.
func extended(profile string) bool { return strings.Contains(profile, "+me") }

func one() resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(1, resource.DecimalSI)}
}

func (c counters) all(from, to int, media bool) map[string]resourceapi.Counter {
	out := map[string]resourceapi.Counter{}
	for i := from; i < to; i++ {
		out[fmt.Sprintf("memory-slice-%d", i)] = one()
	}
	if media && c.media {
		out[mediaCounter] = one()
	}
	return out
}

func (c counters) set() resourceapi.CounterSet {
	return resourceapi.CounterSet{Name: c.name, Counters: c.all(0, c.slices, true)}
}

// consumed is what a part takes: the whole card takes all.
func (c counters) consumed(p Part) []resourceapi.DeviceCounterConsumption {
	from, to, media := 0, c.slices, true
	if p.Profile != nil {
		from, to, media = p.Start, p.Start+p.Profile.Size, extended(p.Profile.Name)
	}
	return []resourceapi.DeviceCounterConsumption{{CounterSet: c.name, Counters: c.all(from, to, media)}}
}

// objectName is the name of a node's slice. Nodes have names that no other begins with
// such a way: the driver's name is in between.
func objectName(node string, s Slice) string { return node + "-" + Driver + "-" + s.Name }

// spec is a slice as it is written.
func (s Slice) spec(node string, pool resourceapi.ResourcePool) resourceapi.ResourceSliceSpec {
	return resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool, NodeName: &node, Devices: s.Devices, SharedCounters: s.Counters}
}

// byName orders slices as they are written.
func byName(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) }
