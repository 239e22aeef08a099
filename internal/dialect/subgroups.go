package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Subgroup is a part of a gang that runs whole or not at all. Parent is empty for the topmost. Min is
// how many members a leaf needs, MinGroups how many subgroups an inner one needs, 0 for all.
type Subgroup = gang.Subgroup

// CheckSubgroups says what is wrong with a group's subgroups. words are the vocabulary's
// own names of the list ("") and of the fields name, parent, min and minGroups.
func (g *Group) CheckSubgroups(words map[string]string) error {
	err, leaves := gang.ValidateSubgroups(g.Subgroups, g.MinGroups), g.leaves()
	for i, s := range g.Subgroups {
		switch {
		case err != nil:
		case s.Min < 1 && slices.Contains(leaves, s.Name):
			err = &gang.SubgroupError{Index: i, Field: "min", Problem: fmt.Sprintf("%d is below 1", s.Min)}
		case s.Min > maxGang:
			err = &gang.SubgroupError{Index: i, Field: "min", Problem: fmt.Sprintf("%d is above %d", s.Min, maxGang)}
		}
	}
	if err == nil {
		return nil
	}
	err.Words, err.List = words, words[""]
	return err
}

// leaves are the names of the subgroups that have members.
func (g *Group) leaves() []string {
	inner := map[string]bool{}
	for _, s := range g.Subgroups {
		inner[s.Parent] = true
	}
	var out []string
	for _, s := range g.Subgroups {
		if !inner[s.Name] {
			out = append(out, s.Name)
		}
	}
	return out
}

// Leaf is the subgroup that a pod is in. An error names the field.
func (g *Group) Leaf(m *Membership, labels map[string]string) (string, error) {
	if len(g.policies) > 0 {
		return g.policyLeaf(labels)
	}
	leaves := g.leaves()
	if slices.Contains(leaves, m.Subgroup) {
		return m.Subgroup, nil
	}
	field := label(names.LabelGangGroup)
	switch m.Groups {
	case KAIGroups:
		field = label(KAISubgroup)
	case GroveGangs:
		field = label(groveClique)
	}
	const most = 8
	if more := len(leaves) - most; more > 0 {
		leaves = append(leaves[:most], fmt.Sprintf("or %d more", more))
	}
	if m.Subgroup == "" {
		return "", fmt.Errorf("%s: missing, one of %s", field, strings.Join(leaves, ", "))
	}
	return "", fmt.Errorf("%s: %q is not one of %s", field, m.Subgroup, strings.Join(leaves, ", "))
}

// subgroup reads which subgroup a pod of a gang is in, in Tangram's words.
func (m *Membership) subgroup(pod *v1.Pod) error {
	own, text := pod.Labels[names.LabelGangGroup], pod.Annotations[names.AnnotationGangGroups]
	if own != "" {
		m.Subgroup = own
	}
	named := pod.Labels[names.LabelGang] != ""
	switch {
	case text == "" && own == "":
	case !named && text != "":
		return fmt.Errorf("%s: counts for pods with %s, or on the pod's PodGroup", annotation(names.AnnotationGangGroups), label(names.LabelGang))
	case !named:
		if m.PodGroup == "" {
			return fmt.Errorf("%s: %q, but the pod is in no gang: neither %s nor a PodGroup says so", label(names.LabelGangGroup), own, label(names.LabelGang))
		}
	case text == "":
		return fmt.Errorf("%s: missing, which subgroups gang %q has", annotation(names.AnnotationGangGroups), pod.Labels[names.LabelGang])
	case own == "":
		return fmt.Errorf("%s: missing, which of the gang's subgroups the pod is in", label(names.LabelGangGroup))
	case m.Size > 0:
		return fmt.Errorf("%s: %d, but %s says how many members each subgroup has", label(names.LabelGangSize), m.Size, annotation(names.AnnotationGangGroups))
	default:
		m.GangGroups = text
	}
	return nil
}

// GangGroups reads Tangram's words for the subgroups of a gang: entries separated by
// semicolons, each NAMES: WORDS, where NAMES are one or more names, separated by spaces, and
// WORDS are
//
//	min=4            members that a leaf needs
//	groups=2         subgroups that an inner one needs; without it, all of them
//	in=NAME          the subgroup that it is part of
//	required=LEVEL   the level of domains that its members must share
//	preferred=LEVEL  the level that they should share
//
// The name * is the gang itself, which has groups= only. An error names the annotation and
// the entry.
func GangGroups(text string, levels topology.Levels) (Group, error) {
	g := Group{Min: 1}
	fail := func(format string, args ...any) (Group, error) {
		return Group{Min: 1}, fmt.Errorf("%s: %w", annotation(names.AnnotationGangGroups), fmt.Errorf(format, args...))
	}
	if len(text) > maxGangGroups {
		return fail("longer than %d bytes", maxGangGroups)
	}
	for entry := range strings.SplitSeq(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		called, words, ok := strings.Cut(entry, ":")
		list := strings.Fields(called)
		if !ok || len(list) == 0 {
			return fail("%q is not NAME: min=NUMBER", entry)
		}
		s, err := subgroupWords(words, levels)
		if err != nil {
			return fail("%q: %w", entry, err)
		}
		for _, name := range list {
			s.Name = name
			switch {
			case name != "*":
				g.Subgroups = append(g.Subgroups, s)
			case s != Subgroup{Name: name, MinGroups: s.MinGroups} || s.MinGroups == 0:
				return fail("%q: * is the gang itself, of which groups=NUMBER is said here", entry)
			default:
				g.MinGroups = s.MinGroups
			}
		}
	}
	if len(g.Subgroups) == 0 {
		return fail("names no subgroups")
	}
	err := g.CheckSubgroups(map[string]string{"parent": "in", "minGroups": "groups"})
	var wrong *gang.SubgroupError
	switch {
	case !errors.As(err, &wrong):
		return g, nil
	case wrong.Index < 0:
		return fail("%s", wrong.Problem)
	}
	return fail("%s of subgroup %q: %s", cmp.Or(wrong.Words[wrong.Field], wrong.Field), g.Subgroups[wrong.Index].Name, wrong.Problem)
}

// maxGangGroups bounds the annotation: all annotations of an object may have 256 KiB.
const maxGangGroups = 64 << 10

// subgroupWords reads the words of an entry.
func subgroupWords(words string, levels topology.Levels) (s Subgroup, err error) {
	numbers := map[string]*int{"min": &s.Min, "groups": &s.MinGroups}
	into := map[string]*model.Level{"required": &s.Require, "preferred": &s.Prefer}
	for _, word := range strings.Fields(words) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case numbers[key] != nil:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxGang {
				return s, fmt.Errorf("%q is not a number from 1 to %d", word, maxGang)
			}
			*numbers[key] = n
		case into[key] != nil:
			var c model.Closeness
			if err := closer(&c, value, levels); err != nil {
				return s, fmt.Errorf("%q: %w", word, err)
			}
			if c.Level.Name == "" {
				return s, fmt.Errorf("%q: a word for devices of one node; a subgroup shares node, %s", word, strings.Join(levels.Names(), ", "))
			}
			*into[key] = c.Level
		case key == "in" && value != "":
			s.Parent = value
		default:
			return s, fmt.Errorf("%q is not min=, groups=, in=, required= or preferred=", word)
		}
	}
	return s, nil
}
