package sim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Config says what to replay, how often, and what to tell.
type Config struct {
	Nodes, Pods string    // files in the openb format
	Policies    []string  // names, see policyNames
	Load        float64   // GPU demand to replay, as a part of capacity
	Seed        uint64    // of the first run; the next has Seed+1, and so on
	Seeds       int       // runs
	At          []float64 // loads to measure at, ascending once complete
	Workload    string    // online | oracle: how tangram knows the workload
	Lifetimes   bool      // requests end; At are the loads to run at
	Scale       int       // every node so many times
	JSON        bool
	HTML        string // file; empty for none
	SVG         string // file; empty for none
}

// The two ways to know a workload.
const (
	Online = "online"
	Oracle = "oracle"
)

// DefaultConfig replays the published protocol.
func DefaultConfig() Config {
	return Config{
		Policies: []string{"tangram"}, Load: 1.3, Seed: 42, Seeds: 10,
		Workload: Online, Scale: 1,
	}
}

// Bounds of a sensible question. maxLoad keeps a typing error from filling the
// memory with arrivals.
const (
	maxLoad  = 10.0
	maxSeeds = 1000
	maxScale = 100
)

// curves says whether the values between the loads measured are asked for.
func (c *Config) curves() bool { return c.HTML != "" || c.SVG != "" }

// defaultAt are the loads measured when none are given.
func defaultAt(lifetimes bool) []float64 {
	if lifetimes {
		return []float64{0.9, 1.0, 1.1}
	}
	return []float64{0.8, 1.0, 1.3}
}

// complete fills in what depends on other flags, and says what is wrong, naming
// the flag.
func (c *Config) complete() error {
	if len(c.At) == 0 {
		c.At = defaultAt(c.Lifetimes)
		if !c.Lifetimes {
			c.At = slices.DeleteFunc(c.At, func(at float64) bool { return at > c.Load })
		}
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Nodes == "" {
		bad("--nodes is missing: a node list in the openb format")
	}
	if c.Pods == "" {
		bad("--pods is missing: a pod list in the openb format")
	}
	if len(c.Policies) == 0 {
		bad("--policy is empty, want some of %s", strings.Join(policyNames, ", "))
	}
	for i, p := range c.Policies {
		if !slices.Contains(policyNames, p) {
			bad("--policy %q is unknown, want some of %s", p, strings.Join(policyNames, ", "))
		}
		if slices.Contains(c.Policies[:i], p) {
			bad("--policy %q is there twice", p)
		}
	}
	if !(c.Load > 0 && c.Load <= maxLoad) {
		bad("--load %v is not in (0, %v]", c.Load, maxLoad)
	}
	if c.Seeds < 1 || c.Seeds > maxSeeds {
		bad("--seeds %d is not in 1..%d", c.Seeds, maxSeeds)
	}
	if c.Scale < 1 || c.Scale > maxScale {
		bad("--scale %d is not in 1..%d", c.Scale, maxScale)
	}
	if c.Workload != Online && c.Workload != Oracle {
		bad("--workload %q is unknown, want %s or %s", c.Workload, Online, Oracle)
	}
	for i, at := range c.At {
		switch {
		case !(at > 0 && at <= maxLoad):
			bad("--at %v is not in (0, %v]", at, maxLoad)
		case !c.Lifetimes && at > c.Load:
			bad("--at %v is beyond --load %v", at, c.Load)
		case slices.Contains(c.At[:i], at):
			bad("--at %v is there twice", at)
		}
	}
	for _, file := range [...]struct{ flag, name string }{{"--html", c.HTML}, {"--svg", c.SVG}} {
		if file.name == "" {
			continue
		}
		if c.Lifetimes {
			bad("%s shows curves over the load of one run; with --lifetimes each load is a run of its own", file.flag)
		}
		// Better now than after minutes of work.
		if info, err := os.Stat(filepath.Dir(file.name)); err != nil || !info.IsDir() {
			bad("%s %q: there is no such folder", file.flag, file.name)
		}
	}
	slices.SortFunc(c.At, cmp.Compare[float64])
	return errors.Join(errs...)
}
