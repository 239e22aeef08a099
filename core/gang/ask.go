package gang

import (
	"fmt"

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
	// Min is how many members must be placed in all; at least the sum of the roles'.
	Min int
	// Require is the level at which all members must share a domain.
	Require model.Level
	// Beside are nodes where members run already. Missing members go near them,
	// and share their domain at the required level.
	Beside []model.NodeID
	// May says whether a node would take a role's pods for all that is not known
	// here (taints, affinity, volumes). nil: any would.
	May func(role int, node model.NodeID) bool
	// Weights decide between nodes.
	Weights score.Weights
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
	// Domain is the path of the domain that holds all of them; empty for the whole
	// cluster.
	Domain string
	Nodes  int
}

// Failure says why there is no plan.
type Failure struct {
	// Need is the minimum, Placed how many found a place in the attempt that came
	// furthest, in Domain.
	Need, Placed int
	Domain       string
	// Role is the role of the first member without a place; Refused says why nodes
	// cannot take it, once the others are placed.
	Role    string
	Refused explain.Tally
	// Level is the required level, when there is one; Domains is how many domains of
	// that level were tried.
	Level   string
	Domains int
}

func (f *Failure) String() string {
	where := ""
	if f.Level != "" {
		where = fmt.Sprintf(" in one %s", f.Level)
		if f.Domains == 0 {
			return fmt.Sprintf("needs %d members%s, and no %s has that many free GPUs", f.Need, where, f.Level)
		}
	}
	role := ""
	if f.Role != "" {
		role = fmt.Sprintf(" of role %q", f.Role)
	}
	reasons := f.Refused.String()
	if reasons == "" {
		reasons = "no node may take it"
	}
	return fmt.Sprintf("needs %d members%s, %d find a place; for the next%s: %s", f.Need, where, f.Placed, role, reasons)
}
