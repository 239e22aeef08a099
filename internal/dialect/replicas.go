package dialect

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// Labels of GPU Feature Discovery that tell how GPUs are shared.
const (
	replicasLabel = "nvidia.com/gpu.replicas"
	sharingLabel  = "nvidia.com/gpu.sharing-strategy" // none, time-slicing or mps
	mpsLabel      = "nvidia.com/mps.capable"          // true only where MPS sharing is configured
	sharedSuffix  = "-SHARED"                         // of the product, where the resource was not renamed
)

// replicas is how NVIDIA's device plugin sells a node's GPUs as nvidia.com/gpu several
// times over: time-slicing or MPS with renameByDefault: false. The zero value means
// that it sells whole GPUs.
type replicas struct {
	cards, turns int
	mps          bool
}

// replicasOf reads it from the labels of GPU Feature Discovery. The plugin publishes
// cards times replicas as allocatable; a renamed resource (nvidia.com/gpu.shared) is
// another vocabulary.
func replicasOf(node *v1.Node) replicas {
	sold := quantity(node.Status.Allocatable, nvidiaGPU)
	cards, turns := labelNumber(node, names.LabelNVIDIACount), labelNumber(node, replicasLabel)
	strategy := node.Labels[sharingLabel]
	mps := strategy == "mps" || node.Labels[mpsLabel] == "true"
	if turns == 0 && cards > 0 && sold > cards && (strings.HasSuffix(node.Labels[names.LabelNVIDIAProduct], sharedSuffix) || mps || strategy == "time-slicing") {
		turns = (sold + cards - 1) / cards
	}
	if sold == 0 || turns < 2 || strategy == "none" {
		return replicas{}
	}
	turns = min(turns, model.MaxDevices)
	if cards == 0 {
		cards = (sold + turns - 1) / turns
	}
	return replicas{cards: int(min(cards, model.MaxDevices)), turns: int(turns), mps: mps}
}

// apply marks a device as sold in turns. What exists only as MIG instances is not.
func (r replicas) apply(d *model.Device) {
	if r.turns == 0 || d.Fixed {
		return
	}
	// NVIDIA's plugin refuses more than one MPS replica in a container, always. Of
	// time-slices it does so with failRequestsGreaterThanOne, which no label tells.
	d.Tenants, d.Replicated, d.OnePerContainer = r.turns, true, r.mps
}
