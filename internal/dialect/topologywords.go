package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Words of others for how close the members of a gang must be, or should be. They name a
// level by a node label (Kueue, KAI), or by the number of a tier of HyperNodes (Volcano).
const (
	kueueRequired  = "kueue.x-k8s.io/podset-required-topology"
	kueuePreferred = "kueue.x-k8s.io/podset-preferred-topology"
	kueueSlice     = "kueue.x-k8s.io/podset-slice-required-topology"

	kaiTopologyName = "kai.scheduler/topology"
	kaiRequired     = "kai.scheduler/topology-required-placement"
	kaiPreferred    = "kai.scheduler/topology-preferred-placement"

	volcanoTopologyMode = "volcano.sh/network-topology-mode"
	volcanoTopologyTier = "volcano.sh/network-topology-highest-tier"
)

const noSlices = "slices of a pod set are kept by Kueue's topology-aware scheduling only; it did not assign this pod a node"

// readTopologyWords adds what annotations of Kueue, KAI and Volcano say, where tangram.dev/topology names no level.
func readTopologyWords(pod *v1.Pod, r *model.Request, levels topology.Levels) error {
	kueue := func(words map[string]string, levels topology.Levels) (require, prefer model.Level, err error) {
		require, prefer, err = levelsNamed(words, kueueRequired, kueuePreferred, levels, func(label string) bool { return !assigned(pod, label) })
		if label, ok := words[kueueSlice]; ok && err == nil && !assigned(pod, label) {
			err = fmt.Errorf("%s: %s", annotation(kueueSlice), noSlices)
		}
		return require, prefer, err
	}
	var found [2]model.Level // required, preferred
	for _, words := range []struct {
		read  func(words map[string]string, levels topology.Levels) (require, prefer model.Level, err error)
		field string
	}{{kueue, annotation(kueueRequired)}, {kaiPlacement, annotation(kaiRequired)}, {volcanoPlacement, annotation(volcanoTopologyTier)}} {
		require, prefer, err := words.read(pod.Annotations, levels)
		if err != nil {
			return err
		}
		for i, said := range []model.Level{require, prefer} {
			if said.Name != "" && found[i].Name != "" && found[i] != said {
				return fmt.Errorf("%s: %s, but another annotation says %s", words.field, said.Name, found[i].Name)
			}
			found[i] = cmp.Or(said, found[i])
		}
	}
	r.Require.Level, r.Prefer.Level = cmp.Or(r.Require.Level, found[0]), cmp.Or(r.Prefer.Level, found[1])
	return nil
}

// assigned says whether Kueue's topology-aware scheduling chose the pod's domain already:
// it writes a node selector with the label, or with the host's name.
func assigned(pod *v1.Pod, label string) bool {
	_, domain := pod.Spec.NodeSelector[label]
	_, host := pod.Spec.NodeSelector[v1.LabelHostname]
	return domain || host
}

// levelCalled finds a level by its node label, its own name or the alias that a Topology
// object gives it. A word with a slash is a label: one of another prefix is another label.
func levelCalled(levels topology.Levels, word string) (model.Level, error) {
	if word == v1.LabelHostname {
		return model.Level{Name: "node", Depth: model.NodeDepth}, nil
	}
	if level, ok := levels.OfLabel(word); ok {
		return level, nil
	}
	if level, ok := levels.Find(levelName(word)); ok && !strings.Contains(word, "/") {
		return level, nil
	}
	var known []string
	for _, l := range levels {
		known = append(known, l.Label)
	}
	return model.Level{}, fmt.Errorf("%q is not the label of a level of domains: these are %s; a Topology object or topologyLevels in the scheduler's configuration adds one",
		word, strings.Join(append(known, v1.LabelHostname), ", "))
}

// levelName makes the name of a level of a label or alias: letters, digits and dashes after the slash.
func levelName(word string) string {
	_, name, ok := strings.Cut(word, "/")
	if !ok {
		name = word
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(name, "-")
}

// kaiPlacement reads KAI's annotations, on a pod or on its owner.
func kaiPlacement(words map[string]string, levels topology.Levels) (require, prefer model.Level, err error) {
	return levelsNamed(words, kaiRequired, kaiPreferred, levels, func(string) bool { return true })
}

// kaiTopology reads a topologyConstraint of KAI's PodGroup.
func (r reader) kaiTopology(levels topology.Levels) (require, prefer model.Level) {
	return r.level(levels, "topologyConstraint.requiredTopologyLevel", true), r.level(levels, "topologyConstraint.preferredTopologyLevel", true)
}

// level reads a field that names a level; strict: an unknown one is invalid.
func (r reader) level(levels topology.Levels, path string, strict bool) model.Level {
	word := r.text(path)
	if word == "" {
		return model.Level{}
	}
	level, err := levelCalled(levels, word)
	if strict {
		r.note(err, path)
	}
	return level
}

// networkTopology reads Volcano's networkTopology of a PodGroup. Without a tier it asks for
// nothing more than what is tried anyway: the tightest domain first.
func (r reader) networkTopology(levels topology.Levels) (require, prefer model.Level) {
	if r = r.in("networkTopology"); r.object == nil {
		return require, prefer
	}
	hard, err := isHard(r.text("mode"))
	r.note(err, "mode")
	var level model.Level
	number, numbered := r.number("highestTierAllowed")
	name := r.text("highestTierName")
	switch {
	case numbered && name != "":
		r.fail("highestTierName", "given beside highestTierAllowed")
	case numbered:
		level, err = tierLevel(levels, number)
		if hard { // a wish for what is unknown is met as well as any
			r.note(err, "highestTierAllowed")
		}
	case name != "":
		var ok bool
		if level, ok = levels.Find(name); !ok {
			level, ok = levels.Find(levelName(name))
		}
		if !ok && hard {
			r.fail("highestTierName", "%q is not one of %s", name, strings.Join(levels.Names(), ", "))
		}
	}
	if hard {
		return level, model.Level{}
	}
	return model.Level{}, level
}

// isHard reads a mode of Volcano's.
func isHard(mode string) (bool, error) {
	if mode = cmp.Or(mode, "hard"); mode != "hard" && mode != "soft" {
		return false, fmt.Errorf("%q is not hard or soft", mode)
	}
	return mode == "hard", nil
}

// volcanoPlacement reads Volcano's annotations of pods without a PodGroup of their own.
func volcanoPlacement(words map[string]string, levels topology.Levels) (require, prefer model.Level, err error) {
	text, ok := words[volcanoTopologyTier]
	mode, hasMode := words[volcanoTopologyMode]
	if !ok && !hasMode {
		return require, prefer, nil
	}
	hard, err := isHard(mode)
	if err != nil {
		return require, prefer, fmt.Errorf("%s: %w", annotation(volcanoTopologyMode), err)
	}
	if !ok {
		return require, prefer, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return require, prefer, fmt.Errorf("%s: %q is not a tier like 1", annotation(volcanoTopologyTier), text)
	}
	level, err := tierLevel(levels, n)
	switch {
	case !hard:
		return require, level, nil
	case err != nil:
		return require, prefer, fmt.Errorf("%s: %w", annotation(volcanoTopologyTier), err)
	}
	return level, prefer, nil
}

// tierPrefix begins the labels of levels that are tiers: their values come from HyperNodes, not from nodes.
const tierPrefix = "topology.volcano.sh/tier-"

// tierLabel is the label of a tier's level.
func tierLabel(tier int64) string { return tierPrefix + strconv.FormatInt(tier, 10) }

// IsTier says whether a level's label stands for a tier of HyperNodes, so that nodes do not have it.
func IsTier(label string) bool { return strings.HasPrefix(label, tierPrefix) }

// tierLevel is the level of the widest tier not above a number; none when it is above all: the whole cluster.
func tierLevel(levels topology.Levels, number int64) (model.Level, error) {
	tiers := map[int64]model.Level{}
	for _, l := range levels {
		if text, ok := strings.CutPrefix(l.Label, tierPrefix); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				tiers[n], _ = levels.OfLabel(l.Label)
			}
		}
	}
	known := slices.Sorted(maps.Keys(tiers))
	switch {
	case len(known) == 0:
		return model.Level{}, fmt.Errorf("%d, but the cluster has no HyperNodes (topology.volcano.sh), which define tiers; highestTierName may be one of %s", number, strings.Join(levels.Names(), ", "))
	case number > known[len(known)-1]:
		return model.Level{}, nil
	case number < known[0]:
		return model.Level{}, fmt.Errorf("%d is below the lowest tier of the cluster's HyperNodes, %d", number, known[0])
	}
	at, found := slices.BinarySearch(known, number)
	if !found {
		at--
	}
	return tiers[known[at]], nil
}
