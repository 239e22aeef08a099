package gang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Tree is the subgroups of a gang as a plan needs them.
type Tree struct {
	// Groups are the gang itself, at 0, and its subgroups, each after its parent.
	Groups []Group
	// Goal is the group that must become whole: 0 to start the gang, a subgroup of one
	// that runs. Of the groups inside the goal only a leaf that is the goal itself may have
	// members that run.
	Goal int
}

// Group is the gang, or a subgroup, of a Tree. One without groups of its own is a leaf.
type Group struct {
	Name   string
	Parent int // -1 of the gang itself
	// Min is how many members a leaf needs beyond those that run. MinGroups is how many of
	// its groups an inner one needs; 0: all.
	Min, MinGroups  int
	Require, Prefer model.Level
	// Beside are the nodes where members of the group run, sorted.
	Beside []model.NodeID
}

// needs is how many of its children a group needs.
func (t *Tree) needs(g, children int) int {
	if n := t.Groups[g].MinGroups; n > 0 {
		return n
	}
	return children
}

// nest plans a gang with subgroups.
//
// The search walks the tree from the goal down. A group is tried in one domain of its
// required level after the other, inside the domain of its parent; then its children, or
// its members, are placed there; then the walk goes on with the next group, and comes back
// for another domain when that fails. Leaves without a required level are placed last,
// those with the smallest scope first. Of more groups than are needed the first ones are
// tried, then others. Groups that are alike are not tried where, or instead of where, one
// of them has failed.
//
// Members are placed as they come (fill.go). If that fails and members differ in what they
// ask for, domains are chosen by counting alone, and the members of all leaves are weighed
// against each other in them (weigh.go).
//
// Both searches end after a number of attempts, which grows with the number of groups: each
// group that is looked at inside another counts, and each leaf that is placed. Within it a plan
// is found whenever there is one, for members that ask for whole devices as in the package's
// comment, where every leaf has members of one kind or needs all that exist. Cost: attempts
// times that of a plain gang of the leaf's size; without competition one attempt per leaf.
type nest struct {
	*Ask
	maker    *maker // for the ledger, and nodes that run members
	children [][]int
	roles    [][]int // of each leaf
	members  []int   // that exist, of each group
	sizes    []int   // of each group: groups inside it, and itself
	nodes    []model.NodeID
	can      []bool // enough members exist
	alike    []string

	// all: the present search is for all that exists. joint: members are weighed against
	// each other once all domains are chosen.
	all, joint bool
	leaves     map[int]*part
	// tries is how many more groups and leaves may be tried, steps how much weighing may cost; cut:
	// a search ended for want of them.
	tries, steps int
	cut          bool

	// The present attempt: members placed, how many of each role, and the leaves, with
	// their scopes, that are placed or to be placed last.
	placed []Placement
	taken  []int
	chosen []bool
	scopes []scope
	last   []int
	// failed are domains in which groups alike were tried without success in the present attempt.
	failed map[sameGroup][]string

	// failure describes the best attempt, and lacking is the group that it could not place.
	failure Failure
	lacking int
}

// sameGroup is groups of one parent that are alike.
type sameGroup struct {
	parent int
	alike  string
}

// Limits of the search for a gang with subgroups, in groups looked at and leaves placed.
const (
	// firstTries is for each scope at first, and triesPerGroup more for each group.
	firstTries, triesPerGroup = 64, 8
	// scopesOfTries is how many scopes may use up what is for each.
	scopesOfTries = 16
	// maxTries is for all scopes of the goal's required level together, and triesPerGroup
	// more for each group.
	maxTries = 1024
)

func newNest(m *maker) *nest {
	t := &nest{
		Ask: m.ask, maker: m, taken: make([]int, len(m.ask.Roles)), failed: map[sameGroup][]string{},
		steps: maxSteps,
	}
	n := len(t.Tree.Groups)
	t.children, t.roles = make([][]int, n), make([][]int, n)
	t.members, t.can, t.alike = make([]int, n), make([]bool, n), make([]string, n)
	t.chosen, t.scopes, t.sizes = make([]bool, n), make([]scope, n), make([]int, n)
	for i, r := range t.Roles {
		t.roles[r.Group] = append(t.roles[r.Group], i)
		t.members[r.Group] += len(r.Members)
	}
	for g := n - 1; g >= 0; g-- { // children before their parents
		group := &t.Tree.Groups[g]
		slices.Reverse(t.children[g])
		t.sizes[g]++
		if t.isLeaf(g) {
			t.can[g] = t.members[g] >= group.Min
		} else {
			t.can[g] = len(t.complete(g)) >= t.Tree.needs(g, len(t.children[g]))
		}
		t.alike[g] = t.likeness(g)
		if group.Parent >= 0 {
			t.children[group.Parent] = append(t.children[group.Parent], g)
			t.members[group.Parent] += t.members[g]
			t.sizes[group.Parent] += t.sizes[g]
		}
	}
	return t
}

func (t *nest) isLeaf(g int) bool { return len(t.children[g]) == 0 }

// complete are the children of a group that could be whole with the members that exist.
func (t *nest) complete(g int) []int {
	var out []int
	for _, c := range t.children[g] {
		if t.can[c] {
			out = append(out, c)
		}
	}
	return out
}

// needed is how many of its complete children a group must have now.
func (t *nest) needed(g int) int {
	if t.all {
		return len(t.complete(g))
	}
	return t.Tree.needs(g, len(t.children[g]))
}

// least is how many members a leaf must have now.
func (t *nest) leastOf(g int) int {
	if t.all {
		return t.members[g]
	}
	return t.Tree.Groups[g].Min
}

// likeness is equal for groups that fit alike; empty when that is not known.
func (t *nest) likeness(g int) string {
	group := &t.Tree.Groups[g]
	if len(group.Beside) > 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %s %s", group.Min, group.MinGroups, group.Require.Name, group.Prefer.Name)
	for _, role := range t.roles[g] {
		r := &t.Roles[role]
		if r.Shape == "" {
			return ""
		}
		fmt.Fprintf(&b, "|%d %q", len(r.Members), r.Shape)
	}
	for _, c := range t.children[g] {
		if t.alike[c] == "" {
			return ""
		}
		fmt.Fprintf(&b, "(%s)", t.alike[c])
	}
	return b.String()
}

// minimum are the leaves inside a group that it needs: the first ones, of those that could
// be whole. choice: there are others.
func (t *nest) minimum(g int) (leaves []int, choice bool) {
	if t.isLeaf(g) {
		return []int{g}, false
	}
	kids := t.complete(g)
	need := min(t.needed(g), len(kids))
	choice = len(kids) > need
	for _, c := range kids[:need] {
		more, other := t.minimum(c)
		leaves, choice = append(leaves, more...), choice || other
	}
	return leaves, choice
}

// part is leaves of a gang as a plain gang.
type part struct {
	*maker
	// roleOf is the gang's role of each of its roles.
	roleOf []int
}

// leaf is a leaf as a plain gang of the members that it must have.
func (t *nest) leaf(g int) *part {
	p := t.leaves[g]
	if p == nil {
		p = t.flat([]int{g})
		p.ask.Beside = t.near(g)
		t.leaves[g] = p
	}
	p.failure, p.furthest, p.within = Failure{Need: p.least, Placed: -1}, scope{}, scope{}
	return p
}

// near are the nodes near which members of a leaf are wanted.
func (t *nest) near(g int) []model.NodeID {
	for ; g > 0; g = t.Tree.Groups[g].Parent {
		if beside := t.Tree.Groups[g].Beside; len(beside) > 0 {
			return beside
		}
	}
	return t.Tree.Groups[0].Beside
}

// flat is leaves as a plain gang: the members that they must have, all of them needed.
func (t *nest) flat(leaves []int) *part {
	ask := &Ask{Weights: t.Weights, Terse: true}
	var roleOf []int
	for _, g := range leaves {
		for i, n := range t.counts(g) {
			if role := t.roles[g][i]; n > 0 {
				r := t.Roles[role]
				r.Members, r.Min = r.Members[:n], n
				ask.Roles, roleOf = append(ask.Roles, r), append(roleOf, role)
			}
		}
	}
	return t.partOf(ask, roleOf)
}

// partOf completes a part of which the members are known.
func (t *nest) partOf(ask *Ask, roleOf []int) *part {
	if t.May != nil && ask.May == nil {
		ask.May = func(role int, id model.NodeID) *explain.Refusal { return t.May(roleOf[role], id) }
	}
	p := &part{newMaker(t.maker.l, t.maker.p, ask), roleOf}
	p.goal = p.least
	return p
}

// counts is how many members of each role of a leaf it must have: the first ones.
func (t *nest) counts(g int) []int {
	roles := make([]Role, len(t.roles[g]))
	for i, role := range t.roles[g] {
		roles[i].Members = t.Roles[role].Members
	}
	return Spread(t.leastOf(g), roles)
}
