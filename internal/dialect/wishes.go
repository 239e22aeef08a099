package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// readWishes fills a request with what annotations, node selector and affinity select.
func readWishes(pod *v1.Pod, r *model.Request) error {
	use, err := modelList(pod, names.AnnotationUseModel)
	if err != nil {
		return err
	}
	if len(r.UseModels) == 0 { // else the resource's own name says which
		r.UseModels = use
	}
	if r.AvoidModels, err = modelList(pod, names.AnnotationAvoidModel); err != nil {
		return err
	}
	if err := readUUIDs(pod, r, names.AnnotationUseUUID, names.AnnotationAvoidUUID, names.AnnotationAvoidUnhealthy); err != nil {
		return err
	}
	if r.UseIndexes, err = parsedList(pod, names.AnnotationUseIndex, parseIndex); err != nil {
		return err
	}
	if err := readPlacement(pod, r); err != nil {
		return err
	}
	if err := readAffinity(pod, r); err != nil {
		return err
	}
	readSelector(pod, r)
	return nil
}

// readUUIDs reads annotations that select devices, and those that exclude devices.
func readUUIDs(pod *v1.Pod, r *model.Request, use string, avoid ...string) error {
	list, err := wordList(pod, use)
	if err != nil {
		return err
	}
	r.UseUUIDs = append(r.UseUUIDs, list...)
	for _, key := range avoid {
		if list, err = wordList(pod, key); err != nil {
			return err
		}
		r.AvoidUUIDs = append(r.AvoidUUIDs, list...)
	}
	return nil
}

// modelLabels are the node labels that name a GPU model.
var modelLabels = []string{names.LabelAccelerator, names.LabelNVIDIAProduct, names.LabelAMDProduct}

// readSelector takes over what node selector and affinity demand of labels that describe GPUs, so that
// the planner proposes no node that kube-scheduler rejects. What cannot be expressed here (several
// terms, other operators) is left to it.
func readSelector(pod *v1.Pod, r *model.Request) {
	want := func(key string, values []string) {
		if !slices.Contains(attributeLabels, key) {
			return
		}
		r.Attributes = append(r.Attributes, model.Want{Key: key, Values: values})
		r.PreferModels = append(r.PreferModels, modelsOf(key, values)...)
	}
	for _, key := range attributeLabels {
		if value, ok := pod.Spec.NodeSelector[key]; ok {
			want(key, []string{value})
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	if req := affinity.RequiredDuringSchedulingIgnoredDuringExecution; req != nil && len(req.NodeSelectorTerms) == 1 {
		for _, e := range req.NodeSelectorTerms[0].MatchExpressions {
			if e.Operator == v1.NodeSelectorOpIn {
				want(e.Key, e.Values)
			}
		}
	}
	for _, p := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		for _, e := range p.Preference.MatchExpressions {
			if e.Operator == v1.NodeSelectorOpIn {
				r.PreferModels = append(r.PreferModels, modelsOf(e.Key, e.Values)...)
			}
		}
	}
}

// modelsOf parses the values of a label that names models.
func modelsOf(key string, values []string) []model.GPUModel {
	if !slices.Contains(modelLabels, key) {
		return nil
	}
	out := make([]model.GPUModel, 0, len(values))
	for _, v := range values {
		out = append(out, model.ParseModel(v))
	}
	return out
}

// wordList reads a comma-separated annotation. An empty one is an error: it is most likely a mistake.
func wordList(pod *v1.Pod, key string) ([]string, error) {
	value, ok := pod.Annotations[key]
	if !ok {
		return nil, nil
	}
	var out []string
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word == "" {
			return nil, fmt.Errorf("%s: %q has an empty entry", annotation(key), value)
		}
		if out = append(out, word); len(out) > maxWords {
			return nil, fmt.Errorf("%s: more than %d entries", annotation(key), maxWords)
		}
	}
	return out, nil
}

// maxWords bounds lists in annotations, which cost time for every node looked at.
const maxWords = 256

// parsedList is wordList of values that are written as words.
func parsedList[T any](pod *v1.Pod, key string, parse func(word string) (T, error)) ([]T, error) {
	words, err := wordList(pod, key)
	var out []T
	for _, w := range words {
		value, err := parse(w)
		if err != nil {
			return nil, fmt.Errorf("%s: %q %w", annotation(key), w, err)
		}
		out = append(out, value)
	}
	return out, err
}

func modelList(pod *v1.Pod, key string) ([]model.GPUModel, error) {
	return parsedList(pod, key, func(word string) (model.GPUModel, error) {
		m := model.ParseModel(word)
		if !m.Known() {
			return m, errors.New("does not name a GPU model")
		}
		return m, nil
	})
}

func parseIndex(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 || n >= model.MaxDevices {
		return 0, fmt.Errorf("is not a device index (0 to %d)", model.MaxDevices-1)
	}
	return n, nil
}

// split cuts a list, leaving empty entries out.
func split(list, separator string) []string {
	var out []string
	for word := range strings.SplitSeq(list, separator) {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}
