package dialect

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// HAMi's words for placement: one for the node, one for its devices.
const (
	hamiNodePolicy   = "hami.io/node-scheduler-policy"
	hamiDevicePolicy = "hami.io/gpu-scheduler-policy"
)

// ParsePlacement reads the name of a placement.
func ParsePlacement(name string) (model.Placement, error) {
	for _, p := range []model.Placement{model.Binpack, model.Spread} {
		if name == p.String() {
			return p, nil
		}
	}
	return model.Auto, fmt.Errorf("%q is not binpack or spread", name)
}

// Placement reads the placement that an object's own annotation asks for; Auto when it asks for none.
func Placement(annotations map[string]string) (model.Placement, error) {
	return placementAt(annotations, names.AnnotationPlacement)
}

func placementAt(annotations map[string]string, key string) (model.Placement, error) {
	value, ok := annotations[key]
	if !ok || value == "" {
		return model.Auto, nil
	}
	p, err := ParsePlacement(strings.TrimSpace(value))
	if err != nil {
		return model.Auto, fmt.Errorf("%s: %w", annotation(key), err)
	}
	return p, nil
}

// readPlacement reads how nodes and devices are filled: Tangram's word for both, else HAMi's for each.
func readPlacement(pod *v1.Pod, r *model.Request) error {
	both, err := Placement(pod.Annotations)
	if err != nil {
		return err
	}
	if r.NodePlacement, err = placementAt(pod.Annotations, hamiNodePolicy); err != nil {
		return err
	}
	if err := readDevicePolicy(pod, r); err != nil {
		return err
	}
	if both != model.Auto {
		r.Placement, r.NodePlacement = both, both
	}
	return nil
}

// readDevicePolicy reads HAMi's device policies, of which the first direction counts. numa and
// topology-aware are the default; mutex requires an unused device, which the pod then keeps alone.
func readDevicePolicy(pod *v1.Pod, r *model.Request) error {
	words, err := wordList(pod, hamiDevicePolicy)
	if err != nil && pod.Annotations[hamiDevicePolicy] != "" {
		return err
	}
	for _, word := range words {
		switch p, err := ParsePlacement(word); {
		case err == nil:
			if r.Placement == model.Auto {
				r.Placement = p
			}
		case word == "mutex":
			r.Affinity = append(r.Affinity, model.AffinityRule{Kind: model.DifferentDevice})
		case word == "numa" || word == "topology-aware":
		default:
			return fmt.Errorf("%s: %q is not one of binpack, spread, numa, topology-aware, mutex", annotation(hamiDevicePolicy), word)
		}
	}
	return nil
}
