package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// A scheduler that runs elsewhere does not say what it knows, but it answers
// questions: a pod that asks for one certain device tells, by whether it fits and
// by the reason, whether that device exists, is healthy and is free. Engines ask
// such questions to find out whether the scheduler has heard of a change.
//
// The answers expected come from a ledger that is rebuilt from the API, and from core's
// engine.

// questions about one node: first those that show most of it at once (all its
// devices; all healthy ones), then one for each device, for each attribute and for
// each level of domains.
func questions(n *model.Node) []*v1.Pod {
	var out []*v1.Pod
	for _, vendor := range model.Vendors {
		var all, sound []model.Device
		for _, d := range n.Devices {
			if d.Vendor != vendor {
				continue
			}
			all = append(all, d)
			if d.Health == model.Healthy {
				sound = append(sound, d)
			}
		}
		for _, set := range [][]model.Device{all, sound} {
			if len(set) > 0 {
				out = append(out, question(set))
			}
		}
		for _, d := range all {
			out = append(out, question([]model.Device{d}))
		}
		for _, a := range n.Attributes {
			if len(all) > 0 {
				pod := question(all[:1])
				pod.Spec.NodeSelector[a.Key] = a.Value
				out = append(out, pod)
			}
		}
		for _, level := range topology.DefaultLevels() {
			if len(all) > 0 {
				pod := question(all[:1])
				pod.Annotations[names.AnnotationTopology] = "required=" + level.Name
				out = append(out, pod)
			}
		}
	}
	return out
}

// question is a pod that asks for exactly these devices of one vendor.
func question(devices []model.Device) *v1.Pod {
	key := names.AnnotationUseUUID
	var list []string
	for _, d := range devices {
		if d.UUID == "" {
			key = names.AnnotationUseIndex
		}
	}
	for _, d := range devices {
		if key == names.AnnotationUseUUID {
			list = append(list, d.UUID)
		} else {
			list = append(list, strconv.Itoa(d.Index))
		}
	}
	amount := v1.ResourceList{resources[string(devices[0].Vendor)]: *resource.NewQuantity(int64(len(devices)), resource.DecimalSI)}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: strings.Join(list, ",")}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			NodeSelector:  map[string]string{},
			Tolerations:   []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: "main", Image: "scenario", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount},
			}},
		},
	}
}

// nodesOf lists the inventories in one or more ledgers, each node once.
func nodesOf(ledgers ...*ledger.Ledger) []*model.Node {
	var out []*model.Node
	seen := map[model.NodeID]bool{}
	for _, l := range ledgers {
		for b := range l.Buckets() {
			for id := range b.Nodes() {
				if v, ok := l.View(id); ok && !seen[id] {
					seen[id] = true
					out = append(out, v.Node)
				}
			}
		}
	}
	return out
}

// difference is nil when two texts are equal.
func difference(what, got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s:\n%s\nthe API says:\n%s", what, got, want)
}
