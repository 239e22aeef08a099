package cluster

import (
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// ID names a gang.
type ID = model.GangID

// Role is members of a gang that ask for the same.
type Role struct {
	Name    string
	Request *model.Request
	// Members are all that exist, placed or not, in the order in which they start.
	Members []model.HolderID
	// Min is how many of this role the gang needs to run.
	Min int
	// Shape is equal for roles that nodes treat alike. Empty: what the request asks for
	// says it all.
	Shape model.Shape
	// Charge is what a member is charged beside CPU, memory and devices: resources that
	// are counted in their own units.
	Charge arbiter.Amounts
	// KeepsApart: Facts.Apart may keep pods of other shapes, or of this one, off its
	// nodes. MaxPerNode is how many members of the gang may share a node; 0: any number.
	KeepsApart bool
	MaxPerNode int
	// Subgroup is the leaf that the members are in; empty in a gang without subgroups.
	Subgroup string
}

// Subgroup is a part of a gang that runs whole or not at all.
type Subgroup = gang.Subgroup

// Gang is a group of holders that start together. A single pod is a gang of one.
type Gang struct {
	ID ID
	// Name is what people call it: "namespace/name" of its pod or of its gang.
	Name string
	// Queue is where it waits; empty for the default one.
	Queue           string
	Namespace, User string
	Priority        int32
	// Submitted is when it came, in nanoseconds of the caller's clock.
	Submitted int64
	Roles     []Role
	// Min is how many members it needs to run in all. With fewer members than that
	// in existence it waits for the rest of them.
	Min int
	// Require is the level at which all members must share a domain.
	Require model.Level
	// Subgroups are the parts of the gang; empty for a plain one. Then MinGroups is how many
	// of those directly below the gang it needs (0: all), every role is in a leaf without a
	// minimum of its own, and Min is counted from the subgroups.
	Subgroups []Subgroup
	MinGroups int
	// Runtime is how long it is expected to run; 0 when that is not known.
	Runtime time.Duration
	// Preemptible: others may take its place.
	Preemptible bool
	// InCompany: pods of other gangs are evicted with it, the highest priority of which is
	// Company.
	InCompany bool
	Company   int32
	// NeverPreempts: it waits rather than take the place of others.
	NeverPreempts bool
	// MinRuntime is how long it is left alone once it runs.
	MinRuntime time.Duration
	// Weights decide between nodes; all zero: the engine's.
	Weights score.Weights
	// Invalid says what is wrong with the gang's specification, naming the field; empty
	// when nothing is. An invalid gang does not start, but what runs of it counts.
	Invalid string
}

// Validate names the field that is wrong.
func (g *Gang) Validate() error {
	if g.ID == "" {
		return fmt.Errorf("id: empty")
	}
	if g.Min < 1 && len(g.Subgroups) == 0 {
		return fmt.Errorf("min: %d is below 1", g.Min)
	}
	if len(g.Roles) == 0 {
		return fmt.Errorf("roles: none")
	}
	if g.Runtime < 0 || g.MinRuntime < 0 {
		return fmt.Errorf("runtime: is negative")
	}
	sum := 0
	seen := map[model.HolderID]bool{}
	for i, r := range g.Roles {
		if r.Request == nil {
			return fmt.Errorf("roles[%d].request: missing", i)
		}
		if r.Min < 0 {
			return fmt.Errorf("roles[%d].min: %d is negative", i, r.Min)
		}
		sum += r.Min
		for j, h := range r.Members {
			if seen[h] {
				return fmt.Errorf("roles[%d].members[%d]: %q is there twice", i, j, h)
			}
			seen[h] = true
		}
	}
	if sum > g.Min && len(g.Subgroups) == 0 {
		return fmt.Errorf("min: %d is below the sum of the roles' minimums, %d", g.Min, sum)
	}
	return g.validateSubgroups()
}

func (g *Gang) validateSubgroups() error {
	if err := gang.ValidateSubgroups(g.Subgroups, g.MinGroups); err != nil {
		return err
	}
	leaves := map[string]bool{}
	for _, s := range g.Subgroups {
		leaves[s.Name] = true
	}
	for _, s := range g.Subgroups {
		delete(leaves, s.Parent)
	}
	for i, r := range g.Roles {
		switch {
		case len(g.Subgroups) == 0 && r.Subgroup == "":
		case !leaves[r.Subgroup]:
			return fmt.Errorf("roles[%d].subgroup: %q is not a subgroup with members", i, r.Subgroup)
		case r.Min > 0:
			return fmt.Errorf("roles[%d].min: %d, but the minimums of subgroups count", i, r.Min)
		}
	}
	return nil
}
