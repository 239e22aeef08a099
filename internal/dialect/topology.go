package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// bonds are the words for closeness inside a node.
var bonds = map[string]model.Bond{
	"phb": {Link: model.PHB}, "pxb": {Link: model.PXB}, "pix": {Link: model.PIX},
	"nvlink": {Link: model.NVLink}, "nvswitch": {Link: model.NVSwitch}, "numa": {NUMA: true},
}

// readTopology reads how close a pod's devices must and should be, "required=nvlink,preferred=rack":
// of each one link, numa, and one level of domains. HAMi's word for numa counts, too.
func readTopology(pod *v1.Pod, r *model.Request, levels topology.Levels) error {
	if value, ok := pod.Annotations[names.AnnotationNUMABind]; ok {
		bind, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%s: %q is neither true nor false", annotation(names.AnnotationNUMABind), value)
		}
		r.Require.NUMA = bind
	}
	words, err := wordList(pod, names.AnnotationTopology)
	if err != nil {
		return err
	}
	for _, word := range words {
		strength, name, _ := strings.Cut(word, "=")
		strength, name = strings.TrimSpace(strength), strings.TrimSpace(name)
		into := map[string]*model.Closeness{"required": &r.Require, "preferred": &r.Prefer}[strength]
		if into == nil {
			return fmt.Errorf("%s: %q is neither required=LEVEL nor preferred=LEVEL", annotation(names.AnnotationTopology), word)
		}
		if err := closer(into, name, levels); err != nil {
			return fmt.Errorf("%s: %q: %w", annotation(names.AnnotationTopology), word, err)
		}
	}
	return readTopologyWords(pod, r, levels)
}

// closer adds one word.
func closer(c *model.Closeness, word string, levels topology.Levels) error {
	if b, ok := bonds[word]; ok {
		if b.Link != model.SYS && c.Link != model.SYS {
			return fmt.Errorf("a link is named already: %s", strings.ToLower(c.Link.String()))
		}
		c.Bond = c.And(b)
		return nil
	}
	level, ok := levels.Find(word)
	if word == "node" {
		level, ok = model.Level{Name: word, Depth: model.NodeDepth}, true
	}
	switch {
	case !ok:
		return fmt.Errorf("%q is not one of %s", word, strings.Join(slices.Concat(levels.Names(), insideNode), ", "))
	case c.Level.Name != "":
		return fmt.Errorf("a level is named already: %s", c.Level.Name)
	}
	c.Level = level
	return nil
}

// insideNode are the words for closeness below all levels, the wide ones first.
var insideNode = []string{"node", "numa", "phb", "pxb", "pix", "nvlink", "nvswitch"}

// levelsNamed reads two annotations that name levels, as far as a word counts.
func levelsNamed(
	words map[string]string, required, preferred string, levels topology.Levels, counts func(word string) bool,
) (require, prefer model.Level, err error) {
	for _, x := range []struct {
		key  string
		into *model.Level
	}{{required, &require}, {preferred, &prefer}} {
		if word, ok := words[x.key]; ok && counts(word) {
			if *x.into, err = levelCalled(levels, word); err != nil {
				return require, prefer, fmt.Errorf("%s: %w", annotation(x.key), err)
			}
		}
	}
	return require, prefer, nil
}
