package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// maxUnheeded bounds how many fields one message names.
const maxUnheeded = 8

// Unheeded says which words of a pod have no effect, naming the fields; nil when all have: words that
// are ignored, resources as annotations, annotations as resources.
func Unheeded(pod *v1.Pod) error {
	var found []string
	look := func(kind WordKind, name, field string, other WordKind, otherwise string) {
		switch w, known := FindWord(kind, name); {
		case known && w.Effect == Ignores && !quiet[name]:
			found = append(found, field+": has no effect here")
		case !known && isRead(other, name):
			found = append(found, field+": "+otherwise)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		look(Annotation, key, annotation(key), Resource, "has no effect here: it is a resource, to be written under resources.limits of a container")
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		look(Label, key, label(key), "", "")
	}
	_ = eachContainer(pod, func(c *v1.Container, path string, _ model.Phase) error {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) { // requests of extended resources have limits
			look(Resource, string(name), path+".resources.limits["+string(name)+"]", Annotation, "is no resource: it is an annotation, to be written under metadata.annotations")
		}
		return nil
	})
	if len(found) == 0 {
		return nil
	}
	more := ""
	if n := len(found) - maxUnheeded; n > 0 {
		found, more = found[:maxUnheeded], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%s%s", strings.Join(found, "; "), more)
}

// quiet are annotations without effect that pods are not warned of: what they ask for is done anyway.
var quiet = map[string]bool{kaiTopologyName: true}

func isRead(kind WordKind, name string) bool {
	w, known := FindWord(kind, name)
	return known && w.Effect == Reads
}
