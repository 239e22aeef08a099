package gang

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// Role is a set of members of a gang with equal requests.
type Role struct {
	Name    string
	Request *model.Request
	// Members are not yet placed, in the order in which they are.
	Members []model.HolderID
	// Min is how many of Members must be placed.
	Min int
	// Group is the leaf of Ask.Tree that the members are in. Min does not count then.
	Group int
	// Shape is equal for roles that nodes treat alike; empty when that is not known.
	Shape string
}

// Ask is a gang to start, or the missing members of one that runs.
type Ask struct {
	Roles []Role
	// Min is how many members must be placed in all; less than the sum of the roles'
	// minimums means that sum.
	Min int
	// Require is the level at which all members must share a domain.
	Require model.Level
	// Tree are the gang's subgroups; nil for a plain gang. Then Min, Require and Beside do
	// not count: the tree has its own.
	Tree *Tree
	// Beside are nodes where members already run, sorted. Missing members are placed
	// near them, and in their domain at the required level. Nodes that no longer exist
	// are ignored.
	Beside []model.NodeID
	// Within, when not nil, are the only nodes that may be used, sorted. They may be of
	// several domains of the required level: one of these is used.
	Within []model.NodeID
	// May asks the filters outside core (taints, affinity, volumes) whether a node
	// accepts one more pod of a role, given the ledger's present state: nil if it does,
	// otherwise the reason. A nil May accepts every node.
	May func(role int, node model.NodeID) *explain.Refusal
	// Allow says whether these numbers of members per role may be placed together, for
	// reasons other than room on nodes (a quota). It must be monotonic: if it allows
	// some numbers it allows all smaller ones. nil: any number.
	Allow func(counts []int) bool
	// Weights rank the nodes.
	Weights score.Weights
	// Terse leaves Failure.Nodes empty, for attempts whose failure is not reported:
	// collecting the reasons visits every node.
	Terse bool
}

// least is how many members must be placed in all.
func (a *Ask) least() int {
	sum := 0
	for _, r := range a.Roles {
		sum += r.Min
	}
	return max(a.Min, sum)
}

// members is how many members are to be placed.
func (a *Ask) members() int {
	sum := 0
	for _, r := range a.Roles {
		sum += len(r.Members)
	}
	return sum
}

// Spread distributes a number of members over roles: every role gets its minimum, then
// the first roles are filled up. These are the members a gang asks for first.
func Spread(total int, roles []Role) []int {
	counts := make([]int, len(roles))
	for i, r := range roles {
		counts[i] = r.Min
		total -= r.Min
	}
	for i, r := range roles {
		more := max(0, min(total, len(r.Members)-r.Min))
		counts[i] += more
		total -= more
	}
	return counts
}

// Placement is one member's place.
type Placement struct {
	Holder model.HolderID
	Role   int
	Node   model.NodeID
	Grant  place.Grant
}

// Plan places a gang. Members beyond the minimum may be missing.
type Plan struct {
	Placements []Placement
	// Domain is the path of the domain, or the name of the node, inside which the
	// members were placed; empty for the whole cluster.
	Domain string
	// Nodes is the number of distinct nodes used.
	Nodes int
	// weighed: found by weighing roles against each other, after placing them one after
	// the other had failed.
	weighed bool
}

// Failure says why there is no plan.
type Failure struct {
	// Need is the minimum, Placed how many members were placed in the best attempt,
	// which was made in Domain.
	Need, Placed int
	Domain       string
	// Exist is how many members exist, when that is less than Need.
	Exist int
	// Role is the role of the first member that could not be placed; empty when the gang
	// has one role. Nodes counts, per reason, the nodes that reject that member once the
	// others are placed.
	Role  string
	Nodes explain.Tally
	// Level is the required level, if any; Domains is how many domains of that level
	// have enough free devices in sum.
	Level   string
	Domains int
	// Subgroup is the subgroup that the best attempt could not place, SubNeed how many
	// members it needs, SubPlaced how many of them were placed; Level is the level it
	// requires. Empty for a plain gang.
	Subgroup           string
	SubNeed, SubPlaced int
	// Bounded: the search ended at its limit, so a place that exists can have been missed.
	Bounded bool
}

// Reason is the failure as the reason the gang waits.
func (f *Failure) Reason() explain.Reason {
	r := explain.Reason{
		Code: explain.Nodes, Need: f.Need, Placed: f.Placed, Role: f.Role, Level: f.Level, Nodes: f.Nodes,
		Subgroup: f.Subgroup, SubNeed: f.SubNeed, SubPlaced: f.SubPlaced,
	}
	switch {
	case f.Exist > 0:
		r.Code, r.Exist = explain.Members, f.Exist
	case f.Level != "" && f.Domains == 0 && f.Nodes.Nodes() == 0 && (f.Need > 1 || f.SubNeed > 1):
		r.Code = explain.NoDomain
	}
	return r
}

func (f *Failure) String() string {
	r := f.Reason()
	return r.String()
}
