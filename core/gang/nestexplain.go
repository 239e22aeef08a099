package gang

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// note takes down how far an attempt came that failed at a leaf, if further than others.
func (t *nest) note(g int, p *part) {
	had := max(0, p.failure.Placed)
	if t.groups.all || t.joint || len(t.placed)+had <= t.failure.Placed {
		return
	}
	t.short(g, had)
	t.failure.Domains, t.failure.Domain = 1, p.failure.Domain
	if len(p.ask.Roles) > 1 {
		t.failure.Role = p.failure.Role
	}
	if !t.Terse {
		p.ask.Terse = false
		p.failure.Domains = 1
		p.explain()
		t.failure.Nodes = p.failure.Nodes
		p.ask.Terse = true
	}
}

// explain says of a gang of which no member has a place why, of all nodes and not only of
// those of the attempt.
func (t *nest) explain() {
	if t.Terse || t.failure.Placed > 0 || t.failure.Need == 0 || len(t.groups.near(t.lacking)) > 0 {
		return
	}
	t.search(false)
	leaves, _ := t.groups.minimum(t.lacking)
	var level model.Level // the tightest that is required of it
	for g := t.lacking; g >= 0; g = t.Tree.Groups[g].Parent {
		if r := t.Tree.Groups[g].Require; r.Name != "" && (level.Name == "" || tighter(r, level)) {
			level = r
		}
	}
	var nodes explain.Tally // of the first leaf that no node takes, else of the last
	for _, l := range leaves {
		if p := t.sites.leaf(l); len(p.order) > 0 {
			if nodes = newFilling(p.maker, scope{}).tally(p.firstShort(), level); nodes.Fit() == 0 {
				break
			}
		}
	}
	if t.failure.Level != "" || nodes.Fit() == 0 {
		t.failure.nowhere(nodes)
	}
}

// short takes down that a group could not be placed, with how many of its members.
func (t *nest) short(g, had int) {
	if t.groups.all || t.joint || len(t.placed)+had <= t.failure.Placed {
		return
	}
	group := &t.Tree.Groups[g]
	leaves, _ := t.groups.minimum(g)
	need := 0
	for _, l := range leaves {
		need += t.groups.leastOf(l)
	}
	t.lacking = g
	t.failure = Failure{
		Need: t.failure.Need, Placed: len(t.placed) + had, Level: group.Require.Name,
		Subgroup: group.Name, SubNeed: need, SubPlaced: had,
	}
}
