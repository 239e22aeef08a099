package gang

import (
	"fmt"
	"slices"
	"strings"

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
	groups groups
	sites  sites

	// joint: members are weighed against each other once all domains are chosen.
	joint bool
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
	n := len(m.ask.Tree.Groups)
	t := &nest{
		Ask: m.ask, groups: newGroups(m.ask), steps: maxSteps, failed: map[sameGroup][]string{},
		taken: make([]int, len(m.ask.Roles)), chosen: make([]bool, n), scopes: make([]scope, n),
	}
	t.sites = sites{groups: &t.groups, maker: m}
	return t
}

// groups says what each group of a gang has and needs. Only all changes.
type groups struct {
	*Ask
	children [][]int
	roles    [][]int // of each leaf
	members  []int   // that exist, of each group
	sizes    []int   // of each group: groups inside it, and itself
	can      []bool  // enough members exist
	alike    []string
	// all: the present search is for all that exists, otherwise for the minimum.
	all bool
}

func newGroups(ask *Ask) groups {
	n := len(ask.Tree.Groups)
	t := groups{
		Ask: ask, children: make([][]int, n), roles: make([][]int, n), members: make([]int, n), sizes: make([]int, n),
		can: make([]bool, n), alike: make([]string, n),
	}
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

func (t *groups) isLeaf(g int) bool { return len(t.children[g]) == 0 }

// complete are the children of a group that could be whole with the members that exist.
func (t *groups) complete(g int) []int {
	var out []int
	for _, c := range t.children[g] {
		if t.can[c] {
			out = append(out, c)
		}
	}
	return out
}

// needed is how many of its complete children a group must have now.
func (t *groups) needed(g int) int {
	if t.all {
		return len(t.complete(g))
	}
	return t.Tree.needs(g, len(t.children[g]))
}

// least is how many members a leaf must have now.
func (t *groups) leastOf(g int) int {
	if t.all {
		return t.members[g]
	}
	return t.Tree.Groups[g].Min
}

// likeness is equal for groups that fit alike; empty when that is not known.
func (t *groups) likeness(g int) string {
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
func (t *groups) minimum(g int) (leaves []int, choice bool) {
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

// near are the nodes near which members of a leaf are wanted.
func (t *groups) near(g int) []model.NodeID {
	for ; g > 0; g = t.Tree.Groups[g].Parent {
		if beside := t.Tree.Groups[g].Beside; len(beside) > 0 {
			return beside
		}
	}
	return t.Tree.Groups[0].Beside
}

// counts is how many members of each role of a leaf it must have: the first ones.
func (t *groups) counts(g int) []int {
	roles := make([]Role, len(t.roles[g]))
	for i, role := range t.roles[g] {
		roles[i].Members = t.Roles[role].Members
	}
	return Spread(t.leastOf(g), roles)
}

// devices is how many whole devices of a vendor a group takes at least.
func (t *groups) devices(g int, v model.Vendor) int64 {
	sum := int64(0)
	if t.isLeaf(g) {
		for i, n := range t.counts(g) {
			if r := t.Roles[t.roles[g][i]].Request; r.Vendor == v && r.Kind() == model.Whole {
				sum += int64(n) * int64(r.Count())
			}
		}
		return sum
	}
	var each []int64
	for _, c := range t.complete(g) {
		each = append(each, t.devices(c, v))
	}
	slices.Sort(each)
	for _, n := range each[:min(t.needed(g), len(each))] {
		sum += n
	}
	return sum
}

// differ says whether members ask for different things.
func (t *groups) differ() bool {
	first := &t.Roles[0]
	return slices.ContainsFunc(t.Roles, func(r Role) bool {
		return r.Shape != first.Shape || r.Shape == "" && r.Request != first.Request
	})
}
