package gang

import (
	"fmt"
	"strings"

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
	// May says whether a node would take one more of a role's pods for all that is not
	// known here (taints, affinity, volumes), as the ledger is. nil: any would.
	May func(role int, node model.NodeID) bool
	// Allow says whether so many members of each role may be placed together, for
	// reasons that are not places (a quota). It must not be changed by more being
	// refused: who may place many may place fewer. nil: any number.
	Allow func(counts []int) bool
	// Weights decide between nodes.
	Weights score.Weights
	// Terse leaves Failure.Refused empty: for whoever tries often and tells nobody.
	// Collecting the reasons costs a look at every kind of node.
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
	// role only. Refused says why nodes cannot take it, once the others are placed;
	// Willing is how many nodes would by their devices, but lack processors or memory
	// or may not for reasons not known here.
	Role    string
	Refused explain.Tally
	Willing int
	// Level is the required level, when there is one; Domains is how many domains of
	// that level have enough free devices, in sum, to be tried.
	Level   string
	Domains int
}

func (f *Failure) String() string {
	need := fmt.Sprintf("needs %s", plural(f.Need, "member"))
	if f.Level != "" {
		need += " in one " + f.Level
		if f.Domains == 0 {
			return fmt.Sprintf("%s, and no %s has room for them", need, f.Level)
		}
	}
	if f.Exist > 0 {
		return fmt.Sprintf("%s, %d exist", need, f.Exist)
	}
	next := ""
	if f.Role != "" {
		next = fmt.Sprintf(" of role %q", f.Role)
	}
	var reasons []string
	if len(f.Refused.Lines()) > 0 {
		reasons = append(reasons, f.Refused.String())
	}
	if f.Willing > 0 {
		reasons = append(reasons, plural(f.Willing, "node")+" with the GPUs may not take it, or lack CPU or memory")
	}
	out := fmt.Sprintf("%s, %d can be placed", need, f.Placed)
	if len(reasons) == 0 {
		return out
	}
	return fmt.Sprintf("%s; for the next%s: %s", out, next, strings.Join(reasons, ", "))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
