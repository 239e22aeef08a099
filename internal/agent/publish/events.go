package publish

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// maxPending bounds the changes that wait for the API server; the oldest are dropped.
// The GPUNode says in which state devices are.
const maxPending = 64

// notice is one event to be.
type notice struct{ kind, reason, text string }

// told is what events have said so far.
type told struct {
	// states are those that were told, by device; driver whether the driver was said to
	// be ready.
	states map[string]v1alpha1.Health
	driver bool
	// mixed and left: it was said that models differ, and what is left out.
	mixed bool
	left  string
}

// newTold begins with what the GPUNode says, so that an agent that starts again does not
// repeat what was told.
func newTold(gn *v1alpha1.GPUNode) *told {
	t := &told{states: map[string]v1alpha1.Health{}, driver: true}
	for _, d := range gn.Status.Devices {
		t.states[d.UUID] = d.Health
	}
	for _, c := range gn.Status.Conditions {
		if c.Type == v1alpha1.DriverReady {
			t.driver = c.Status != "False"
		}
	}
	return t
}

// changes are the events that a state of devices is worth, compared with what was told.
// While the driver is away nothing is known of devices and nothing is told of them.
func (t *told) changes(s *state, devices []v1alpha1.Device) (out []notice) {
	if ready := s.problem == nil; ready != t.driver {
		if t.driver = ready; ready {
			out = append(out, notice{v1.EventTypeNormal, "GPUDriverReady", "the GPU driver answers"})
		} else {
			out = append(out, notice{v1.EventTypeWarning, "GPUDriverNotReady", s.problem.Message})
		}
	}
	if s.problem != nil {
		return out
	}
	for _, d := range devices {
		now, why := v1alpha1.Healthy, ""
		if h := s.health[d.UUID]; h != nil {
			now, why = stateOf(h), h.Reason
		}
		was, known := t.states[d.UUID]
		if !known {
			was = v1alpha1.Healthy
		}
		t.states[d.UUID] = now
		if was == now {
			continue
		}
		kind := v1.EventTypeWarning
		if now == v1alpha1.Healthy {
			kind = v1.EventTypeNormal
		}
		text := fmt.Sprintf("GPU %d (%s) was %s and is %s: %s", d.Index, d.UUID, was, now, why)
		out = append(out, notice{kind, "GPU" + string(now), strings.TrimSuffix(text, ": ")})
	}
	return out
}

// models warns once of a node whose devices differ, and of devices that are left out.
func (t *told) models(devices []v1alpha1.Device, labelled string, left []string) (out []notice) {
	counts := map[string]bool{}
	for _, d := range devices {
		counts[d.Model] = true
	}
	if len(counts) > 1 && !t.mixed {
		t.mixed = true
		out = append(out, notice{v1.EventTypeWarning, "MixedGPUModels",
			fmt.Sprintf("the node has GPUs of %d models; its labels describe %s alone, its GPUNode describes all", len(counts), labelled)})
	}
	if text := strings.Join(left, "; "); text != t.left {
		if t.left = text; text != "" {
			out = append(out, notice{v1.EventTypeWarning, "GPUsLeftOut", text})
		}
	}
	return out
}

// say writes events about the node.
func say(recorder record.EventRecorder, node *v1.Node, notices []notice) {
	if recorder == nil || node == nil {
		return
	}
	about := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	for _, n := range notices {
		recorder.Event(about, n.kind, n.reason, clip(n.text, maxReason))
	}
}
