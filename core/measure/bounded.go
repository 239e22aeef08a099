package measure

import (
	"slices"
	"strings"
)

// Other stands for all values that a label has no room for.
const Other = "other"

// maxLength bounds the length of a value, in bytes: Kubernetes' own names are shorter.
const maxLength = 253

// Names bounds how many values a label may have. The first ones that come are admitted,
// all others are Other, until some are dropped. Not safe for concurrent use.
type Names struct {
	max      int
	admitted map[string]bool
}

// NewNames returns a set with room for so many values.
func NewNames(max int) *Names { return &Names{max: max, admitted: map[string]bool{}} }

// Admit returns the value under which a name is counted: itself, or Other when there is
// no room for it or it is no text that a label may hold.
func (n *Names) Admit(name string) string {
	switch {
	case n.admitted[name]:
		return name
	case name == Other || !printable(name) || len(n.admitted) >= n.max:
		return Other
	}
	n.admitted[name] = true
	return name
}

// Keep drops all names that do not exist any more and returns them, sorted.
func (n *Names) Keep(exists func(string) bool) (dropped []string) {
	for name := range n.admitted { // sorted below
		if !exists(name) {
			delete(n.admitted, name)
			dropped = append(dropped, name)
		}
	}
	slices.Sort(dropped)
	return dropped
}

// Size is how many names are admitted.
func (n *Names) Size() int { return len(n.admitted) }

// printable says whether a label may have the value.
func printable(s string) bool { return len(s) <= maxLength && strings.ToValidUTF8(s, "") == s }
