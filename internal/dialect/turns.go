package dialect

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// Turns are shares without amounts: time-sliced GPUs under their own name, and
// vGPUs of a hypervisor's manager.
const (
	sharedGPU v1.ResourceName = "nvidia.com/gpu.shared"
	vGPU      v1.ResourceName = "nvidia.com/vgpu"
)

var turns = vocabulary{
	read: func(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
		var found *ask
		for _, r := range []v1.ResourceName{sharedGPU, vGPU} {
			w := &words{c: c, path: path}
			n, field, ok := w.number(r, 0, maxCount)
			if w.err != nil {
				return nil, w.err
			}
			if !ok || n == 0 {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("%s: two vocabularies in one container, the other is %s", field, found.field)
			}
			found = &ask{vendor: model.NVIDIA, resource: r, count: int(n), field: field, part: model.Part{Kind: model.Share, Turn: true}}
		}
		return found, nil
	},
	devices: func(node *v1.Node) (*registration, error) {
		for _, r := range []v1.ResourceName{sharedGPU, vGPU} {
			turns := quantity(node.Status.Allocatable, r)
			if turns == 0 {
				continue
			}
			each := labelNumber(node, replicasLabel)
			cards := labelNumber(node, names.LabelNVIDIACount)
			if cards == 0 && each > 0 {
				cards = turns / each
			}
			if cards == 0 {
				cards = turns // nothing says how turns are shared out: count them singly
			}
			if cards > maxCount || turns < cards {
				return nil, fmt.Errorf("status.allocatable[%s]: %d turns on %d cards", r, turns, cards)
			}
			reg := equalDevices(node, model.NVIDIA, int(cards), 0)
			for i := range reg.devices {
				reg.devices[i].Tenants = int(turns / cards)
			}
			return reg, nil
		}
		return nil, nil
	},
}

func labelNumber(node *v1.Node, key string) int64 {
	n, err := strconv.ParseInt(node.Labels[key], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
