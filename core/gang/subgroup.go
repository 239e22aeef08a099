package gang

import (
	"cmp"
	"fmt"

	"github.com/tangram-dev/tangram/core/model"
)

// Subgroup is a part of a gang that runs whole or not at all. One with subgroups of its
// own is inner, the others are leaves: members are in leaves only.
type Subgroup struct {
	// Name is unique in the gang. Parent is the subgroup that this one is part of; empty:
	// the gang itself.
	Name, Parent string
	// Min is how many members a leaf needs. 0: none is needed any more, because those that
	// were have succeeded. Members beyond it are optional.
	Min int
	// MinGroups is how many of its own subgroups an inner one needs, each of them whole;
	// 0: all. The others are optional.
	MinGroups int
	// Require is the level at which all members of the subgroup must share a domain,
	// inside the domain of its parent; Prefer the level at which they should.
	Require, Prefer model.Level
}

// Bounds of a gang's subgroups: what is beyond is taken for an error.
const (
	MaxSubgroups     = 1024
	MaxSubgroupDepth = 8
)

// SubgroupError is what is wrong with a gang's subgroups.
type SubgroupError struct {
	// Index is the position of the subgroup in the list; -1: the gang's own field.
	Index int
	// Field is the field of Subgroup: name, parent, min, minGroups; empty: the list.
	Field   string
	Problem string
	// Words, when set, is how another vocabulary calls a field.
	Words map[string]string
	// List is the name of the list; empty: subgroups.
	List string
}

func (e *SubgroupError) Error() string {
	field, list := cmp.Or(e.Words[e.Field], e.Field), cmp.Or(e.List, "subgroups")
	switch {
	case e.Index < 0 && field == "":
		return fmt.Sprintf("%s: %s", list, e.Problem)
	case e.Index < 0:
		return fmt.Sprintf("%s: %s", field, e.Problem)
	}
	return fmt.Sprintf("%s[%d].%s: %s", list, e.Index, field, e.Problem)
}

// ValidateSubgroups says what is wrong with the subgroups of a gang that needs so many
// of its own subgroups (0: all), or nil. Parents may come after their children.
func ValidateSubgroups(list []Subgroup, minGroups int) *SubgroupError {
	fail := func(i int, field, format string, args ...any) *SubgroupError {
		return &SubgroupError{Index: i, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if len(list) == 0 {
		if minGroups != 0 {
			return fail(-1, "minGroups", "%d, but there are no subgroups", minGroups)
		}
		return nil
	}
	if len(list) > MaxSubgroups {
		return fail(-1, "", "%d subgroups, at most %d", len(list), MaxSubgroups)
	}
	at, children := map[string]int{}, map[string]int{}
	for i, s := range list {
		if s.Name == "" {
			return fail(i, "name", "empty")
		}
		if first, twice := at[s.Name]; twice {
			return fail(i, "name", "%q is also the name of [%d]", s.Name, first)
		}
		at[s.Name] = i
		children[s.Parent]++
	}
	for i, s := range list {
		if _, ok := at[s.Parent]; s.Parent != "" && !ok {
			return fail(i, "parent", "there is no subgroup %q", s.Parent)
		}
		depth := 1
		for p := s.Parent; p != ""; p = list[at[p]].Parent {
			if depth++; p == s.Name {
				return fail(i, "parent", "%q is inside %q itself", s.Parent, s.Name)
			}
			if depth > MaxSubgroupDepth {
				return fail(i, "parent", "more than %d subgroups inside each other, or a circle", MaxSubgroupDepth)
			}
		}
		n := children[s.Name]
		switch {
		case n > 0 && s.Min != 0:
			return fail(i, "min", "%d members, but the subgroup has subgroups of its own, and members are in those", s.Min)
		case s.Min < 0:
			return fail(i, "min", "%d is negative", s.Min)
		case s.MinGroups < 0:
			return fail(i, "minGroups", "%d is negative", s.MinGroups)
		case n == 0 && s.MinGroups > 0:
			return fail(i, "minGroups", "%d, but the subgroup has no subgroups", s.MinGroups)
		case s.MinGroups > n:
			return fail(i, "minGroups", "%d, but there are only %d", s.MinGroups, n)
		}
	}
	switch n := children[""]; {
	case minGroups < 0:
		return fail(-1, "minGroups", "%d is negative", minGroups)
	case minGroups > n:
		return fail(-1, "minGroups", "%d, but there are only %d", minGroups, n)
	}
	return nil
}
