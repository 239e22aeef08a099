package autoscale

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// stays are the annotations by which autoscalers leave a node alone: Karpenter's and
// cluster-autoscaler's.
var stays = []string{names.AnnotationDoNotDisrupt, names.AnnotationScaleDownDisabled}

// keepPatch marks a node. What an operator has set is his: the mark names what was added.
// nil: it is marked.
func keepPatch(n *v1.Node) ([]byte, error) {
	if _, marked := n.Annotations[names.AnnotationKept]; marked {
		return nil, nil
	}
	set, ours := map[string]any{}, []string{}
	for _, key := range stays {
		if _, there := n.Annotations[key]; !there {
			set[key] = "true"
			ours = append(ours, key)
		}
	}
	set[names.AnnotationKept] = strings.Join(ours, ",")
	return nodePatch(n, set)
}

// freePatch takes the mark back, and what it names unless it was changed since. nil: there
// is none.
func freePatch(n *v1.Node) ([]byte, error) {
	if _, marked := n.Annotations[names.AnnotationKept]; !marked {
		return nil, nil
	}
	set := map[string]any{names.AnnotationKept: nil}
	for _, ours := range strings.Split(n.Annotations[names.AnnotationKept], ",") {
		for _, key := range stays {
			if ours == key && n.Annotations[key] == "true" {
				set[key] = nil
			}
		}
	}
	return nodePatch(n, set)
}

// nodePatch is for the version that was read.
func nodePatch(n *v1.Node, annotations map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": annotations}})
}
