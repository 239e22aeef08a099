package mig

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// MaxSlices is the most memory slices a GPU has.
const MaxSlices = 8

// Slices is a set of memory slices of one GPU: bit i is slice i.
type Slices uint8

// Profile is one kind of instance.
type Profile = model.MIGProfile

// interval is the set of slices an instance covers.
func interval(p *Profile, start int) Slices {
	return Slices((1<<p.Size - 1) << start)
}

// State is what is cut out of a GPU.
type State struct {
	Used Slices
	// Media: an instance with the media engines exists.
	Media bool
}

// Geometry answers what can be cut out of one model of GPU. It is never changed
// and safe for concurrent use.
type Geometry struct {
	slices   int
	profiles []Profile
	// most[p][used] is how many instances of profile p still fit.
	most [][1 << MaxSlices]uint8
	// worth[used] is how much of the GPU can still be sold, see Worth.
	worth [1 << MaxSlices]int32
}

// New checks profiles, as NVML or the catalog gives them, and builds the tables.
// An error names the field.
func New(slices int, profiles []Profile) (*Geometry, error) {
	if slices < 1 || slices > MaxSlices {
		return nil, fmt.Errorf("slices: %d is not between 1 and %d", slices, MaxSlices)
	}
	if len(profiles) == 0 {
		return nil, fmt.Errorf("profiles: none")
	}
	for i, p := range profiles {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("profiles[%d].name: empty", i)
		case p.Size < 1 || p.Size > slices:
			return nil, fmt.Errorf("profiles[%d].size: %d is not between 1 and %d", i, p.Size, slices)
		case p.Memory < 0:
			return nil, fmt.Errorf("profiles[%d].memory: %d is negative", i, p.Memory)
		case len(p.Starts) == 0:
			return nil, fmt.Errorf("profiles[%d].starts: none", i)
		}
		for j, s := range p.Starts {
			if s < 0 || s+p.Size > slices {
				return nil, fmt.Errorf("profiles[%d].starts[%d]: %d slices do not fit at %d of %d", i, j, p.Size, s, slices)
			}
			if j > 0 && s <= p.Starts[j-1] {
				return nil, fmt.Errorf("profiles[%d].starts[%d]: %d is there twice or out of order", i, j, s)
			}
		}
		for j := range i {
			if profiles[j].ID == p.ID {
				return nil, fmt.Errorf("profiles[%d].id: %d is also the id of profiles[%d]", i, p.ID, j)
			}
		}
	}
	g := &Geometry{slices: slices, profiles: profiles}
	g.fill()
	return g, nil
}

// fill computes the tables from the fullest state to the empty one.
func (g *Geometry) fill() {
	g.most = make([][1 << MaxSlices]uint8, len(g.profiles))
	for used := 1<<g.slices - 1; used >= 0; used-- {
		for p := range g.profiles {
			best := uint8(0)
			for _, s := range g.profiles[p].Starts {
				iv := interval(&g.profiles[p], s)
				if Slices(used)&iv != 0 {
					continue
				}
				n := uint8(1)
				if !g.profiles[p].Media {
					n += g.most[p][Slices(used)|iv]
				}
				best = max(best, n)
			}
			g.most[p][used] = best
		}
		sum := int32(0)
		for p := range g.profiles {
			sum += int32(g.most[p][used]) * int32(g.profiles[p].Size)
		}
		g.worth[used] = sum
	}
}

// Slices is the number of memory slices.
func (g *Geometry) Slices() int { return g.slices }

// Profiles lists the profiles; not to be changed.
func (g *Geometry) Profiles() []Profile { return g.profiles }

// Find returns the position of a profile by name, or -1.
func (g *Geometry) Find(name string) int { return Find(g.profiles, name) }

// Find returns the position of a profile in a list by name, or -1. Names are as
// Kubernetes resources spell them: "+" may be written ".".
func Find(profiles []Profile, name string) int {
	for i := range profiles {
		if profiles[i].Name == name || resourceName(profiles[i].Name) == resourceName(name) {
			return i
		}
	}
	return -1
}

// Place chooses where an instance of a profile goes: where the rest stays worth
// most, then as high as possible, since low starts serve the large profiles. It
// returns -1 when there is no legal place.
func (g *Geometry) Place(s State, profile int) int {
	p := &g.profiles[profile]
	if p.Media && s.Media {
		return -1
	}
	best, bestWorth := -1, int32(-1)
	for _, start := range p.Starts {
		iv := interval(p, start)
		if s.Used&iv != 0 {
			continue
		}
		if w := g.worth[s.Used|iv]; w >= bestWorth {
			best, bestWorth = start, w
		}
	}
	return best
}

// Take returns the state with an instance added; false when that is not legal.
func (g *Geometry) Take(s State, profile, start int) (State, bool) {
	p := &g.profiles[profile]
	iv := interval(p, start)
	if !slices.Contains(p.Starts, start) || s.Used&iv != 0 || p.Media && s.Media {
		return s, false
	}
	return State{Used: s.Used | iv, Media: s.Media || p.Media}, true
}

// Release returns the state without an instance.
func (g *Geometry) Release(s State, profile, start int) State {
	p := &g.profiles[profile]
	return State{Used: s.Used &^ interval(p, start), Media: s.Media && !p.Media}
}

// Worth is how much of the GPU can still be sold: over all profiles, the memory
// slices it could cover with that profile alone. It only compares states of one
// geometry.
func (g *Geometry) Worth(s State) int { return int(g.worth[s.Used]) }

// Cover is the most memory slices that instances of one profile can still cover:
// the part of the GPU that is left to sell.
func (g *Geometry) Cover(s State) int {
	most := 0
	for p := range g.profiles {
		most = max(most, int(g.most[p][s.Used])*g.profiles[p].Size)
	}
	return most
}

// Free is the number of memory slices nothing covers.
func (g *Geometry) Free(s State) int { return g.slices - bits.OnesCount8(uint8(s.Used)) }

// resourceName spells a profile as Kubernetes resources do.
func resourceName(profile string) string {
	return strings.ReplaceAll(profile, "+", ".")
}
