package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
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
	// Shape is equal for roles that nodes treat alike. Empty: what the request asks for
	// says it all.
	Shape Shape
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
	// Subgroups are the gangs that this one is made of; empty for a plain gang. Then
	// MinGroups is how many of those directly below the gang it needs, 0 for all of them,
	// every role is in a leaf and has no minimum of its own, and Min is counted from the
	// subgroups.
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

// known is a gang as the engine knows it.
type known struct {
	Gang
	// placed are the members that have a place, and where; have counts them by role.
	placed map[model.HolderID]spot
	have   []int
	// used is what the members that have a place are charged together.
	used arbiter.Amounts
	// exists is how many members there are.
	exists int
	// tree are its subgroups; nil when it has none.
	tree *tree
	// started is when the first member got its place; valid while placed is not
	// empty.
	started int64
	// shape is the same for gangs that fit alike.
	shape gangShape
	// rank is where it is counted among those that can be evicted; nil: nowhere.
	rank *rank

	// retries is what was tried in futile, so that it is not tried again before something
	// changed.
	retries retries
	mends   mends
	futile  futileEvictions
	// ground and reserveGround are where victims and an earliest start are looked for
	// next.
	ground, reserveGround int

	// failures counts starts that failed since the last success; before restUntil it is
	// left alone. lastRefusal is what kube-scheduler last said of a planned place.
	failures    int
	restUntil   int64
	lastRefusal string
	// overQuota is what its queue or namespace had against the devices that were planned
	// for it last: a share takes more of a small device than of a large one.
	overQuota arbiter.Wait
	// offered is the round in which it was last offered without being planned.
	offered uint64
	// promised is the first start time that a reservation gave it; 0: none.
	promised int64
}

// spot is where a member has its place; bound: the API has confirmed it.
type spot struct {
	role  int
	node  model.NodeID
	bound bool
	// charge is what the member is charged there.
	charge arbiter.Amounts
}

// seat is the gang and the role of a holder.
type seat struct {
	id   ID
	role int
}

// rank is a queue and a priority.
type rank struct {
	queue    string
	priority int32
}

// queue is the queue's name.
func (g *known) queue() string { return cmp.Or(g.Queue, arbiter.Default) }

// missing is how many members it needs beyond those that have a place, of each role
// and in all.
func (g *known) missing() int {
	if g.tree != nil {
		return g.missingUnit()
	}
	roles := 0
	for i, r := range g.Roles {
		roles += max(0, r.Min-g.have[i])
	}
	return max(roles, g.Min-len(g.placed))
}

// nodes are where its members have their places, sorted.
func (g *known) nodes() []model.NodeID {
	var out []model.NodeID
	for _, s := range g.placed { // sorted below
		out = append(out, s.node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ask is what the gang wants now: members without a place, at least least of them.
func (g *known) ask(least int) *gang.Ask {
	if g.tree != nil {
		return g.askFor(g.goal())
	}
	a := &gang.Ask{Min: least, Require: g.Require, Terse: true}
	for _, s := range g.placed { // sorted below
		if !slices.Contains(a.Beside, s.node) {
			a.Beside = append(a.Beside, s.node)
		}
	}
	slices.Sort(a.Beside)
	for i, r := range g.Roles {
		role := gang.Role{Name: r.Name, Request: r.Request, Min: max(0, r.Min-g.have[i])}
		for _, h := range r.Members {
			if _, ok := g.placed[h]; !ok {
				role.Members = append(role.Members, h)
			}
		}
		a.Roles = append(a.Roles, role)
	}
	return a
}

// demand is what the gang needs now: the members that the arbiter counts as its
// demand, and no more, so that who may start by quota may start with these.
func (g *known) demand() *gang.Ask {
	a := g.ask(g.missing())
	for i, n := range gang.Spread(a.Min, a.Roles) {
		r := &a.Roles[i]
		r.Members = r.Members[:min(n, len(r.Members))]
	}
	return a
}

// single says whether all it needs is one device, or a part of one.
func (g *known) single() bool {
	return g.Min == 1 && !slices.ContainsFunc(g.Roles, func(r Role) bool { return r.Request.Distinct() > 1 })
}

// fixed says that the gang has no choice which members to start with.
func (g *known) fixed() bool { return len(g.placed) == 0 && g.exists == g.Min }

// complete says whether enough members exist to start, of each role and in all.
func (g *known) complete() bool {
	if g.tree != nil {
		return g.completeUnit()
	}
	for _, r := range g.Roles {
		if len(r.Members) < r.Min {
			return false
		}
	}
	return g.exists >= g.Min
}

// gangShape is equal for gangs that fit alike, whatever their owners and times.
type gangShape string

func shapeOfGang(g *Gang, t *tree) gangShape {
	b := make([]byte, 0, 128)
	b = strconv.AppendInt(b, int64(g.Min), 10)
	b = append(append(b, ' '), g.Require.Name...)
	for _, r := range g.Roles {
		b = append(b, '|')
		b = append(strconv.AppendInt(b, int64(r.Min), 10), ' ')
		b = append(strconv.AppendInt(b, int64(len(r.Members)), 10), ' ')
		b = append(append(strconv.AppendInt(b, int64(r.MaxPerNode), 10), ' '), r.Shape...)
	}
	if t != nil {
		b = t.appendShape(b)
	}
	return gangShape(b)
}

// shapeOf is the shape of a role that brings none.
func shapeOf(r *model.Request) Shape { return Shape(r.FitKey() + r.RankKey()) }

// Resources by which gangs are counted. GPUs are counted in thousandths, memory in
// MiB, CPU in thousandths.
const (
	CPU    arbiter.Resource = "cpu"
	Memory arbiter.Resource = "memory"
)

// gpuPrefix begins the names of devices of a vendor.
const gpuPrefix = "gpu/"

// GPU is the resource of a vendor's devices.
func GPU(v model.Vendor) arbiter.Resource { return arbiter.Resource(gpuPrefix + string(v)) }

// Model is the resource of devices of one model.
func Model(name string) arbiter.Resource { return arbiter.Resource("model/" + name) }
