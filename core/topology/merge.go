package topology

import (
	"fmt"
	"slices"
)

// With adds chains of further levels to these, which keep their order. A chain is levels
// that one source lists, outermost first; a level that is there already, by its label,
// keeps its place. A new one is put inside every level that encloses it on the nodes there
// are; value returns the value of a label on a node of 0 to nodes-1, "" where it has none.
// Levels that cross each other split each other's domains: a gang may get less room than it
// could, never a place outside of one domain.
//
// left are the levels that there was no room for. A name that is taken or reserved gets a
// number. Cost: nodes times the square of the levels.
func (ls Levels) With(chains []Levels, nodes int, value func(node int, label string) string) (merged, left Levels) {
	merged = slices.Clone(ls)
	for _, chain := range chains {
		after := 0 // the first place that is inside the chain's levels before
		for i, l := range chain {
			if at := slices.IndexFunc(merged, func(m Level) bool { return m.Label == l.Label }); at >= 0 {
				after = max(after, at+1)
				continue
			}
			if len(merged) >= MaxLevels {
				left = append(left, l)
				continue
			}
			for at := len(merged) - 1; at >= after; at-- {
				if encloses(merged[at], chain[:i+1], nodes, value) {
					after = at + 1
					break
				}
			}
			l.Name = merged.free(l.Name)
			merged = slices.Insert(merged, after, l)
			after++
		}
	}
	return merged, left
}

// encloses says whether every domain of the last level of a chain is in one domain of an
// outer level, as far as nodes have both, and some have.
func encloses(outer Level, chain Levels, nodes int, value func(node int, label string) string) bool {
	in := map[string]string{}
	for n := range nodes {
		o := value(n, outer.Label)
		if o == "" || value(n, chain[len(chain)-1].Label) == "" {
			continue
		}
		path := make([]string, len(chain))
		for i, l := range chain {
			path[i] = value(n, l.Label)
		}
		domain := spellPath(path)
		if before, ok := in[domain]; ok && before != o {
			return false
		}
		in[domain] = o
	}
	return len(in) > 0
}

// free is a name that no level has: the wanted one, or that with a number.
func (ls Levels) free(name string) string {
	if name == "" {
		name = "level"
	}
	for i, try := 2, name; ; i++ {
		if _, taken := ls.Find(try); !taken && !slices.Contains(reserved, try) {
			return try
		}
		try = fmt.Sprintf("%s-%d", name, i)
	}
}
