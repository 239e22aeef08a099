package gang

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// Role is members of a gang that ask for the same.
type Role struct {
	Name    string
	Request *model.Request
	// Members wait for a place, in the order in which they get one.
	Members []model.HolderID
	// Min is how many of Members must be placed.
	Min int
}

// Ask is a gang that wants to start, or some of its members that are missing.
type Ask struct {
	Roles []Role
	// Min is how many members must be placed in all; less than the sum of the roles'
	// minimums means that sum.
	Min int
	// Require is the level at which all members must share a domain.
	Require model.Level
	// Beside are nodes where members run already, sorted. Missing members go near
	// them, and share their domain at the required level. Nodes that are gone tell
	// nothing.
	Beside []model.NodeID
	// Within, when not nil, are the only nodes that may be used, sorted. Whoever
	// names them answers for the required level.
	Within []model.NodeID
	// May says why a node does not take one more of a role's pods for all that is not
	// known here (taints, affinity, volumes), as the ledger is; nil: it does. A nil May
	// refuses nothing.
	May func(role int, node model.NodeID) *explain.Refusal
	// Allow says whether so many members of each role may be placed together, for
	// reasons that are not places (a quota). It must not be changed by more being
	// refused: who may place many may place fewer. nil: any number.
	Allow func(counts []int) bool
	// Weights decide between nodes.
	Weights score.Weights
	// Terse leaves Failure.Nodes empty, for attempts whose failure is not reported:
	// collecting the reasons costs a look at every node.
	Terse bool
}

// least is how many members must be placed.
func (a *Ask) least() int {
	sum := 0
	for _, r := range a.Roles {
		sum += r.Min
	}
	return max(a.Min, sum)
}

// members is how many members wait for a place.
func (a *Ask) members() int {
	sum := 0
	for _, r := range a.Roles {
		sum += len(r.Members)
	}
	return sum
}

// Spread divides a number of members over roles: to each its minimum, then to the
// first ones what they have. These are the members a gang asks for first.
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
	// Domain is the path of the domain, or the name of the node, in which a place was
	// looked for; empty for the whole cluster.
	Domain string
	// Nodes is how many different nodes are used.
	Nodes int
	// weighed: placing one role after the other had failed.
	weighed bool
}

// Failure says why there is no plan.
type Failure struct {
	// Need is the minimum, Placed how many found a place in the attempt that came
	// furthest, in Domain.
	Need, Placed int
	Domain       string
	// Exist is how many members there are, when that is less than Need.
	Exist int
	// Role is the role of the first member without a place; empty when there is one
	// role only. Nodes counts why nodes cannot take it, once the others are placed.
	Role  string
	Nodes explain.Tally
	// Level is the required level, when there is one; Domains is how many domains of
	// that level have enough free devices, in sum, to be tried.
	Level   string
	Domains int
}

// Reason is the failure as a reason to wait.
func (f *Failure) Reason() explain.Reason {
	r := explain.Reason{Code: explain.Nodes, Need: f.Need, Placed: f.Placed, Role: f.Role, Level: f.Level, Nodes: f.Nodes}
	switch {
	case f.Exist > 0:
		r.Code, r.Exist = explain.Members, f.Exist
	case f.Level != "" && f.Domains == 0 && f.Need > 1:
		r.Code = explain.NoDomain
	}
	return r
}

func (f *Failure) String() string {
	r := f.Reason()
	return r.String()
}
