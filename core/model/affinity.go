package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Label is a key and value of a holder, as the adapter names them. Labels of different
// scopes (namespaces) never match, so that a tenant's rules never apply to another
// tenant's pods.
type Label struct{ Scope, Key, Value string }

// Compare orders labels by scope, key and value.
func (l Label) Compare(o Label) int {
	return cmp.Or(cmp.Compare(l.Scope, o.Scope), cmp.Compare(l.Key, o.Key), cmp.Compare(l.Value, o.Value))
}

// GroupLabel is the label that all holders of one group share, whether or not they have
// labels of their own. Its scope is no namespace, so no affinity rule matches it.
func GroupLabel(id string) Label { return Label{Scope: groupScope, Key: "group", Value: id} }

const groupScope = "/"

// Group is the request's group label; false when it is in none.
func (r *Request) Group() (Label, bool) {
	for _, l := range r.Labels {
		if l.Scope == groupScope {
			return l, true
		}
	}
	return Label{}, false
}

// AffinityKind says what a rule asks of the holders it matches.
type AffinityKind uint8

// SameDevice and SameNode require a matching holder to be there already,
// DifferentDevice and DifferentNode require that there is none.
const (
	SameDevice AffinityKind = iota + 1
	DifferentDevice
	SameNode
	DifferentNode
)

// affinityKinds are the kinds' names.
var affinityKinds = []string{"unspecified", "same-device", "different-device", "same-node", "different-node"}

// ParseAffinityKind finds a kind by its name.
func ParseAffinityKind(name string) (AffinityKind, bool) {
	i := slices.Index(affinityKinds, name)
	return AffinityKind(max(i, 0)), i > 0
}

// String is the kind's name in annotations and reasons.
func (k AffinityKind) String() string {
	if int(k) >= len(affinityKinds) {
		k = 0
	}
	return affinityKinds[k]
}

// IsAnti says whether the kind is an anti-affinity.
func (k AffinityKind) IsAnti() bool { return k == DifferentDevice || k == DifferentNode }

// AffinityRule is a requirement on the other holders on the same device or node.
type AffinityRule struct {
	Kind AffinityKind
	// Match are the labels a holder must all have for the rule to match it, sorted. A
	// rule without labels matches every holder of every scope.
	Match []Label
}

// Equal says whether two rules ask for the same.
func (a AffinityRule) Equal(o AffinityRule) bool {
	return a.Kind == o.Kind && slices.Equal(a.Match, o.Match)
}

// Matches says whether the rule matches a holder with these labels, which must be
// sorted.
func (a AffinityRule) Matches(labels []Label) bool {
	for _, want := range a.Match {
		if _, found := slices.BinarySearchFunc(labels, want, Label.Compare); !found {
			return false
		}
	}
	return true
}

// String is the rule as users write it: "same-device=app:db+tier:gold".
func (a AffinityRule) String() string {
	if len(a.Match) == 0 {
		return a.Kind.String() + "=*"
	}
	words := make([]string, len(a.Match))
	for i, l := range a.Match {
		words[i] = l.Key + ":" + l.Value
	}
	return a.Kind.String() + "=" + strings.Join(words, "+")
}

// Validate names the field that is wrong. An affinity to every holder is rejected: all
// it could do is to keep a holder off empty devices.
func (a AffinityRule) Validate() error {
	switch {
	case a.Kind < SameDevice || a.Kind > DifferentNode:
		return fmt.Errorf("kind: %d is not a kind", a.Kind)
	case len(a.Match) == 0 && !a.Kind.IsAnti():
		return fmt.Errorf("match: empty, which only rules that keep apart may be")
	case !slices.IsSortedFunc(a.Match, Label.Compare):
		return fmt.Errorf("match: not sorted")
	}
	return nil
}
