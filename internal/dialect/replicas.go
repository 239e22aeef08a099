package dialect

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
)

// Labels of GPU Feature Discovery about sharing.
const (
	replicasLabel = "nvidia.com/gpu.replicas"
	sharingLabel  = "nvidia.com/gpu.sharing-strategy" // none, time-slicing or mps
	mpsLabel      = "nvidia.com/mps.capable"          // true only where MPS sharing is configured
	sharedSuffix  = "-SHARED"                         // of the product, where the resource was not renamed
)

// replicas is how a node's NVIDIA GPUs are sold to several containers. The zero value
// means that they are sold whole, or in shares by amount, any number on a device.
type replicas struct {
	// turns is how many turns of each GPU are sold; cards how many GPUs there are, where only labels
	// tell. renamed: turns are not sold as nvidia.com/gpu but under a name of their own.
	cards, turns int
	renamed      bool
	// onePerContainer: a container may ask for one turn only.
	onePerContainer bool
	// shares is how many shares by amount a GPU may have at once, 0 for any number; noAmounts: none.
	shares    int
	noAmounts bool
}

// replicasOf reads it from GPU Feature Discovery's labels: time-slicing or MPS under the name
// nvidia.com/gpu, of which allocatable then has cards times replicas.
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
	// NVIDIA's plugin refuses more than one MPS replica in a container, always. Of
	// time-slices it does so with failRequestsGreaterThanOne, which no label tells.
	return replicas{cards: int(min(cards, model.MaxDevices)), turns: int(turns), onePerContainer: mps}
}

// sharedBy reads it from a GPUNode, whose agent knows what it serves and whether a container may have
// one turn only. Of another device plugin labels decide, unless the agent says more.
func sharedBy(node *v1.Node, gn *v1alpha1.GPUNode) (replicas, error) {
	s := gn.Spec.Sharing
	if s == nil && !serves(gn) {
		r := replicasOf(node)
		// Also of turns under another name. One replica means that the device is not time-sliced.
		if n := labelNumber(node, replicasLabel); r.turns == 0 && n > 1 {
			r.turns, r.renamed = int(min(n, model.MaxDevices)), true
		}
		return r, nil
	}
	r := replicas{noAmounts: serves(gn)}
	if s == nil {
		return r, nil
	}
	switch turns := int(min(s.Replicas, model.MaxDevices)); {
	case s.Replicas < 0 || s.MaxShares < 0:
		return r, fmt.Errorf("spec.sharing: replicas %d and maxShares %d must not be negative", s.Replicas, s.MaxShares)
	case turns > 1 || turns == 1 && s.Renamed: // one turn under the name of whole GPUs is a whole GPU
		// As NVIDIA's plugin, the agent gives a container one MPS replica at most.
		r.turns, r.renamed, r.onePerContainer = turns, s.Renamed, s.OnePerContainer || s.Strategy == v1alpha1.MPS
		if s.MaxShares > 0 {
			return r, fmt.Errorf("spec.sharing.maxShares: %d shares by amount beside %d replicas: a device is sold in one of the two ways", s.MaxShares, s.Replicas)
		}
	case s.MaxShares > 0:
		r.shares, r.noAmounts = int(s.MaxShares), false
	}
	return r, nil
}

// serves says whether a GPUNode's agent is the node's device plugin.
func serves(gn *v1alpha1.GPUNode) bool {
	return gn.Spec.Agent != nil && gn.Spec.Agent.Mode == v1alpha1.Serving
}

// asWhole is how many times each GPU is sold as a whole one.
func (r replicas) asWhole() int {
	if r.renamed {
		return 1
	}
	return max(1, r.turns)
}

// apply marks a device as sold so. What exists only as MIG instances is not.
func (r replicas) apply(d *model.Device) {
	if d.Fixed {
		return
	}
	d.NoAmounts = r.noAmounts
	switch {
	case r.turns > 0:
		d.Tenants, d.Replicated, d.OnePerContainer = r.turns, !r.renamed, r.onePerContainer
	case r.shares > 0:
		d.Tenants = r.shares
	}
}

// labelNumber is the number that a label of a node says; 0 when it says none.
func labelNumber(node *v1.Node, key string) int64 {
	n, err := strconv.ParseInt(node.Labels[key], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
