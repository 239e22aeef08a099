package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// readAffinity reads the pod's labels and its affinity rules:
//
//	tangram.dev/device-affinity: same-device=app:db+tier:gold, different-node=app:web
//
// A rule matches pods of the same namespace that have all its labels; none of , = + :
// can be part of a label, so the text is never ambiguous. * after an anti-affinity rule
// matches every pod of every namespace.
func readAffinity(pod *v1.Pod, r *model.Request) error {
	r.Labels = labelsOf(pod)
	words, err := wordList(pod, names.AnnotationAffinity)
	if err != nil {
		return err
	}
	for _, word := range words {
		rule, err := parseRule(pod.Namespace, word)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", annotation(names.AnnotationAffinity), word, err)
		}
		r.Affinity = append(r.Affinity, rule)
	}
	return nil
}

func parseRule(namespace, text string) (model.AffinityRule, error) {
	name, selector, ok := strings.Cut(text, "=")
	kind, known := model.ParseAffinityKind(name)
	if !ok || !known {
		return model.AffinityRule{}, fmt.Errorf("is not same-device=, different-device=, same-node= or different-node= with labels")
	}
	rule := model.AffinityRule{Kind: kind}
	if selector == "*" {
		if !kind.IsAnti() {
			return rule, fmt.Errorf("* is for different-device and different-node only")
		}
		return rule, nil
	}
	for pair := range strings.SplitSeq(selector, "+") {
		key, value, ok := strings.Cut(pair, ":")
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			return rule, fmt.Errorf("%q is not a label written key:value", pair)
		}
		rule.Match = append(rule.Match, model.Label{Scope: namespace, Key: key, Value: value})
	}
	slices.SortFunc(rule.Match, model.Label.Compare)
	rule.Match = slices.Compact(rule.Match)
	return rule, nil
}

// labelsOf are a pod's labels, sorted. All of them are kept: which ones other pods'
// rules will match is not known, and the strings are shared with the pod object.
func labelsOf(pod *v1.Pod) []model.Label {
	var out []model.Label
	for key, value := range pod.Labels {
		out = append(out, model.Label{Scope: pod.Namespace, Key: key, Value: value})
	}
	if group := groupOf(pod); group != "" {
		out = append(out, model.GroupLabel(group))
	}
	slices.SortFunc(out, model.Label.Compare)
	return out
}

// groupOf names the group of pods that a pod should be close to; empty without a topology annotation.
func groupOf(pod *v1.Pod) string {
	if _, ok := pod.Annotations[names.AnnotationTopology]; !ok {
		return ""
	}
	if name := pod.Labels[names.LabelGang]; name != "" {
		return pod.Namespace + "/" + name
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// antiAffinity are a bound pod's anti-affinity rules; none when the annotation has become invalid.
func antiAffinity(pod *v1.Pod) []model.AffinityRule {
	var r model.Request
	if readDevicePolicy(pod, &r) != nil || readAffinity(pod, &r) != nil {
		return nil
	}
	return place.AntiAffinity(r.Affinity)
}

// SameCompany says whether two versions of a pod have equal labels and affinity rules.
func SameCompany(a, b *v1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) &&
		a.Annotations[names.AnnotationAffinity] == b.Annotations[names.AnnotationAffinity] &&
		a.Annotations[hamiDevicePolicy] == b.Annotations[hamiDevicePolicy]
}
