package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// ID names a gang.
type ID string

// Role is members of a gang that ask for the same.
type Role struct {
	Name    string
	Request *model.Request
	// Members are all that exist, placed or not, in the order in which they start.
	Members []model.HolderID
	// Min is how many of this role the gang needs to run.
	Min int
}

// Gang is a group of holders that start together. A single pod is a gang of one.
type Gang struct {
	ID ID
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
	// Runtime is how long it is expected to run; 0 when nobody knows.
	Runtime time.Duration
	// Preemptible: others may take its place.
	Preemptible bool
	// NeverPreempts: it waits rather than take the place of others.
	NeverPreempts bool
	// MinRuntime is how long it is left alone once it runs.
	MinRuntime time.Duration
}

// Validate names the field that is wrong.
func (g *Gang) Validate() error {
	if g.ID == "" {
		return fmt.Errorf("id: empty")
	}
	if g.Min < 1 {
		return fmt.Errorf("min: %d is below 1", g.Min)
	}
	if len(g.Roles) == 0 {
		return fmt.Errorf("roles: none")
	}
	if g.Runtime < 0 || g.MinRuntime < 0 {
		return fmt.Errorf("runtime: is negative")
	}
	sum := 0
	for i, r := range g.Roles {
		if r.Request == nil {
			return fmt.Errorf("roles[%d].request: missing", i)
		}
		if r.Min < 0 {
			return fmt.Errorf("roles[%d].min: %d is negative", i, r.Min)
		}
		sum += r.Min
	}
	if sum > g.Min {
		return fmt.Errorf("min: %d is below the sum of the roles' minimums, %d", g.Min, sum)
	}
	return nil
}

// known is a gang as the engine knows it.
type known struct {
	Gang
	// placed are the members that have a place, and where.
	placed map[model.HolderID]spot
	// started is when the first member got its place; valid while placed is not
	// empty.
	started int64
	reason  Reason
	// unreservable is the generation of reservations in which none was found for it,
	// plus one.
	unreservable uint64
	// shape is the same for gangs that fit alike.
	shape string
}

type spot struct {
	role int
	node model.NodeID
}

// Reason is why a gang does not start. The zero value is none.
type Reason struct {
	// Quota: it waits for its queue or namespace; otherwise for capacity, or for
	// members that do not exist yet.
	Quota bool
	// Incomplete: fewer members exist than it needs.
	Incomplete bool
	Text       string
	// Failure has the details when it waits for capacity; may be nil.
	Failure *gang.Failure
}

func (g *known) exist() int {
	n := 0
	for _, r := range g.Roles {
		n += len(r.Members)
	}
	return n
}

// missing is how many members it needs beyond those that have a place.
func (g *known) missing() int { return max(0, g.Min-len(g.placed)) }

// single says whether all it needs is one device, or a part of one.
func (g *known) single() bool {
	return g.Min == 1 && !slices.ContainsFunc(g.Roles, func(r Role) bool { return r.Request.Distinct() > 1 })
}

// ask is what the gang wants now: members without a place, at least least of them.
func (g *known) ask(least int) *gang.Ask {
	a := &gang.Ask{Min: least, Require: g.Require}
	have := make([]int, len(g.Roles))
	for _, s := range g.placed {
		have[s.role]++
		if !slices.Contains(a.Beside, s.node) {
			a.Beside = append(a.Beside, s.node)
		}
	}
	slices.Sort(a.Beside)
	for i, r := range g.Roles {
		role := gang.Role{Name: r.Name, Request: r.Request, Min: max(0, r.Min-have[i])}
		for _, h := range r.Members {
			if _, ok := g.placed[h]; !ok {
				role.Members = append(role.Members, h)
			}
		}
		a.Roles = append(a.Roles, role)
	}
	return a
}

// complete says whether enough members exist to start, of each role and in all.
func (g *known) complete() bool {
	for _, r := range g.Roles {
		if len(r.Members) < r.Min {
			return false
		}
	}
	return g.exist() >= g.Min
}

// spellShape is equal for gangs that fit alike: whatever their owners and times.
func spellShape(g *Gang) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", g.Min, g.Require.Name)
	for _, r := range g.Roles {
		q := *r.Request
		q.Labels, q.Priority, q.Standing = nil, 0, 0
		fmt.Fprintf(&b, "|%d %d %+v", r.Min, len(r.Members), q)
	}
	return b.String()
}

// Resources by which gangs are counted. GPUs are counted in thousandths, memory in
// MiB, CPU in thousandths.
const (
	CPU    arbiter.Resource = "cpu"
	Memory arbiter.Resource = "memory"
)

// GPU is the resource of a vendor's devices.
func GPU(v model.Vendor) arbiter.Resource { return arbiter.Resource("gpu/" + string(v)) }

// Model is the resource of devices of one model.
func Model(name string) arbiter.Resource { return arbiter.Resource("model/" + name) }
