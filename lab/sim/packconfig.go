package sim

import "slices"

// PackConfig says which fleet to fill, with what and how often.
type PackConfig struct {
	Output
	Nodes, Pods string    // files in the openb format
	Load        float64   // GPU demand to replay, as a part of capacity
	Seed        uint64    // of the first run; the next has Seed+1, and so on
	Seeds       int       // runs
	At          []float64 // loads to measure at, ascending once complete
	Workload    string    // online | oracle: how tangram knows the workload
	Lifetimes   bool      // requests end; At are the loads to run at
	Scale       int       // every node so many times
	SVG         string    // file; empty for none
}

// The two ways to know a workload.
const (
	Online = "online"
	Oracle = "oracle"
)

// DefaultPackConfig replays the published protocol.
func DefaultPackConfig() PackConfig {
	return PackConfig{
		Output: Output{Policies: []string{"tangram"}}, Load: 1.3, Seed: 42, Seeds: 10,
		Workload: Online, Scale: 1,
	}
}

// Limits of flags. maxLoad keeps a typing error from filling the memory with arrivals.
const (
	maxLoad  = 10.0
	maxSeeds = 1000
	maxScale = 100
)

// curves says whether the values between the loads measured are asked for.
func (c *PackConfig) curves() bool { return c.HTML != "" || c.SVG != "" }

// defaultAt are the loads measured when none are given.
func defaultAt(lifetimes bool) []float64 {
	if lifetimes {
		return []float64{0.9, 1.0, 1.1}
	}
	return []float64{0.8, 1.0, 1.3}
}

// complete fills in what depends on other flags, and checks all of them.
func (c *PackConfig) complete() error {
	if len(c.At) == 0 {
		c.At = defaultAt(c.Lifetimes)
		if !c.Lifetimes {
			c.At = slices.DeleteFunc(c.At, func(at float64) bool { return at > c.Load })
		}
	}
	slices.Sort(c.At)
	var bad problems
	bad.needs("--nodes", c.Nodes, "a node list in the openb format")
	bad.needs("--pods", c.Pods, "a pod list in the openb format")
	bad.output(&c.Output, packPolicyNames)
	bad.file("--svg", c.SVG)
	if !(c.Load > 0 && c.Load <= maxLoad) {
		bad.add("--load %v is not in (0, %v]", c.Load, maxLoad)
	}
	bad.count("--seeds", c.Seeds, maxSeeds)
	bad.count("--scale", c.Scale, maxScale)
	if c.Workload != Online && c.Workload != Oracle {
		bad.add("--workload %q is unknown, want %s or %s", c.Workload, Online, Oracle)
	}
	for i, at := range c.At {
		switch {
		case !(at > 0 && at <= maxLoad):
			bad.add("--at %v is not in (0, %v]", at, maxLoad)
		case !c.Lifetimes && at > c.Load:
			bad.add("--at %v is beyond --load %v", at, c.Load)
		case i > 0 && c.At[i-1] == at:
			bad.add("--at %v is there twice", at)
		}
	}
	if c.Lifetimes && c.curves() {
		bad.add("--html and --svg show curves over the load of one run; with --lifetimes each load is a run of its own")
	}
	return bad.err()
}
