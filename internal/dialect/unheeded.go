package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// maxUnheeded bounds how many fields one message names.
const maxUnheeded = 8

// Unheeded says which words of a pod have no effect, naming the fields; nil when all have.
// These are words that are ignored, and words in the wrong place: a resource that is written
// as an annotation asks for nothing, and an annotation that is written as a resource is
// offered by no node.
func Unheeded(pod *v1.Pod) error {
	var found []string
	say := func(field, why string) { found = append(found, field+": "+why) }
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		switch w, known := wordOf(Annotation, key); {
		case known && w.Effect == Ignores && !quiet[key]:
			say(annotation(key), "has no effect here")
		case known:
		case reads(Resource, key):
			say(annotation(key), "has no effect here: it is a resource, to be written under resources.limits of a container")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if w, known := wordOf(Label, key); known && w.Effect == Ignores {
			say(label(key), "has no effect here")
		}
	}
	for _, list := range []struct {
		field      string
		containers []v1.Container
	}{{"spec.initContainers", pod.Spec.InitContainers}, {"spec.containers", pod.Spec.Containers}} {
		for i := range list.containers {
			r := &list.containers[i].Resources
			for _, name := range slices.Sorted(maps.Keys(r.Limits)) { // requests of extended resources have limits
				field := fmt.Sprintf("%s[%d].resources.limits[%s]", list.field, i, name)
				switch w, known := wordOf(Resource, string(name)); {
				case known && w.Effect == Ignores:
					say(field, "has no effect here")
				case known:
				case reads(Annotation, string(name)):
					say(field, "is no resource: it is an annotation, to be written under metadata.annotations")
				}
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	more := ""
	if n := len(found) - maxUnheeded; n > 0 {
		found, more = found[:maxUnheeded], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%s%s", strings.Join(found, "; "), more)
}

// quiet are annotations without effect that pods are not warned of: what they ask for is done
// anyway.
var quiet = map[string]bool{kaiTopologyName: true}

// vocabularyIndex finds words without a walk over all of them: every pod is looked at.
type vocabularyIndex struct {
	exact    map[WordKind]map[string]Word
	patterns []Word
}

var indexed = sync.OnceValue(func() vocabularyIndex {
	out := vocabularyIndex{exact: map[WordKind]map[string]Word{Label: {}, Annotation: {}, Resource: {}}}
	for _, w := range Words() {
		if strings.Contains(w.Name, "*") {
			out.patterns = append(out.patterns, w)
		} else {
			out.exact[w.Kind][w.Name] = w
		}
	}
	return out
})

// wordOf is FindWord, at little cost.
func wordOf(kind WordKind, name string) (Word, bool) {
	x := indexed()
	if w, ok := x.exact[kind][name]; ok {
		return w, true
	}
	return findWord(x.patterns, kind, name)
}

func reads(kind WordKind, name string) bool {
	w, known := wordOf(kind, name)
	return known && w.Effect == Reads
}
