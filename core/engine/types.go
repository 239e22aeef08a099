package engine

import (
	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/preempt"
	"github.com/tangram-dev/tangram/core/release"
)

// Words of the parts that callers of an engine use, so that they import this package and
// core/answer only.
type (
	// ID names a gang.
	ID = cluster.ID
	// Gang is a group of holders that start together, as it is submitted.
	Gang = cluster.Gang
	// Role is members of a gang that ask for the same.
	Role = cluster.Role
	// Subgroup is a part of a gang that runs whole or not at all.
	Subgroup = cluster.Subgroup
	// Shape is equal for members that may run in the same places.
	Shape = model.Shape
	// Facts answers what core cannot know.
	Facts = cluster.Facts
	// NoFacts is a cluster without rules of its own.
	NoFacts = cluster.NoFacts
	// Budget is a disruption budget.
	Budget = cluster.Budget
	// Options is how an engine decides.
	Options = cluster.Options
	// Timing is how long an engine waits.
	Timing = memo.Timing
	// Backoff is a pause that doubles each time.
	Backoff = memo.Backoff
	// Ticket identifies one permission to start.
	Ticket = release.Ticket
	// Release is a member's permission to be scheduled, and where.
	Release = release.Release
	// Effects are what the adapter has to carry out.
	Effects = release.Effects
	// Evict is holders that must go so that a gang can start.
	Evict = preempt.Evict
	// Expectation is when a gang is expected to start.
	Expectation = answer.Expectation
)

// DefaultOptions are the scheduler's.
func DefaultOptions() Options { return cluster.DefaultOptions() }

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing { return memo.DefaultTiming() }

// Resources by which gangs are counted.
const (
	CPU    = cluster.CPU
	Memory = cluster.Memory
)

// GPU is the resource of a vendor's devices.
func GPU(v model.Vendor) arbiter.Resource { return cluster.GPU(v) }

// Model is the resource of devices of one model.
func Model(name string) arbiter.Resource { return cluster.Model(name) }
