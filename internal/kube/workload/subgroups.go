package workload

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// nested is what a gang's PodGroup, or its pods, say of its subgroups, and which of them
// its pods are in.
type nested struct {
	group dialect.Group
	leaf  map[model.HolderID]string
}

// subgroups reads the subgroups of a gang; nil when it has none. problem says what is wrong
// with them, naming the field: then the gang is treated as one without subgroups that cannot
// start.
func (w *Gangs) subgroups(pods []*Member) (n *nested, problem string) {
	said, err := w.saysSubgroups(pods)
	if err != nil {
		return nil, err.Error()
	}
	if said == nil {
		for _, m := range pods {
			if name := m.namesSubgroup(); name != "" && m.Pod.Spec.NodeName == "" {
				return nil, fmt.Sprintf("pod %s: %s, but PodGroup %s has no subgroups", m.Pod.Name, name, m.PodGroup)
			}
		}
		return nil, ""
	}
	n = &nested{leaf: map[model.HolderID]string{}}
	var leaves []string
	for _, m := range pods {
		leaf, err := said.Leaf(&m.Membership, m.Pod.Labels)
		if err != nil {
			return nil, fmt.Sprintf("pod %s: %v", m.Pod.Name, err)
		}
		n.leaf[model.HolderID(m.Pod.UID)] = leaf
		leaves = append(leaves, leaf)
	}
	slices.Sort(leaves)
	n.group = said.WithLeaves(slices.Compact(leaves))
	if err := n.group.CheckSubgroups(nil); err != nil {
		return nil, err.Error()
	}
	return n, ""
}

// saysSubgroups is what says which subgroups a gang has: its PodGroup, or its pods, those
// that wait first; nil when none does.
func (w *Gangs) saysSubgroups(pods []*Member) (*dialect.Group, error) {
	if said := w.owners.said(pods[0]); said != nil && said.HasSubgroups() {
		return said, nil
	} else if said != nil {
		return nil, nil
	}
	first := max(0, slices.IndexFunc(pods, func(m *Member) bool { return m.Pod.Spec.NodeName == "" }))
	text := pods[first].GangGroups
	if text == "" {
		return nil, nil
	}
	said, err := dialect.GangGroups(text, w.reader.Levels())
	return &said, err
}

// add gives a gang its subgroups, and its roles theirs. done are members that succeeded:
// a leaf does not miss them.
func (n *nested) add(to *engine.Gang, done map[model.HolderID]finished) {
	to.Subgroups, to.MinGroups = slices.Clone(n.group.Subgroups), n.group.MinGroups
	exist, ended := map[string]int{}, map[string]int{}
	for _, r := range to.Roles {
		exist[r.Subgroup] += len(r.Members)
	}
	for _, f := range done {
		if leaf, err := n.group.Leaf(&f.Membership, f.labels); err == nil {
			ended[leaf]++
		}
	}
	for i := range to.Subgroups {
		s := &to.Subgroups[i]
		s.Min -= min(ended[s.Name], max(0, s.Min-exist[s.Name]))
	}
}

// least is how many members the leaves need together.
func (n *nested) least() (sum int) {
	for _, s := range n.group.Subgroups {
		sum += s.Min
	}
	return sum
}

// namesSubgroup is the label by which a pod names a subgroup, in Tangram's words or in KAI's,
// and its value; empty without one.
func (m *Member) namesSubgroup() string {
	keys := []string{names.LabelGangGroup}
	if m.Groups == dialect.KAIGroups {
		keys = append(keys, dialect.KAISubgroup)
	}
	for _, key := range keys {
		if name := m.Pod.Labels[key]; name != "" {
			return fmt.Sprintf("metadata.labels[%s]: %q", key, name)
		}
	}
	return ""
}
