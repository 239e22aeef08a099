package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/model"
)

// HAMi's words: nvidia.com/gpu counts cards as for whole GPUs, and any of the
// others makes them shares.
const (
	hamiMemory  v1.ResourceName = "nvidia.com/gpumem"
	hamiPercent v1.ResourceName = "nvidia.com/gpumem-percentage"
	hamiCores   v1.ResourceName = "nvidia.com/gpucores"

	hamiMode     = "nvidia.com/vgpu-mode"
	hamiRegister = "hami.io/node-nvidia-register"
	hamiCordon   = "hami.io/device-cordon"
)

var hami = vocabulary{
	read: func(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
		w := &words{c: c, path: path}
		if !usesHAMi(w) {
			return nil, nil
		}
		return perCard(w, nvidiaGPU, hamiMemory, hamiPercent, hamiCores)
	},
	wishes: func(pod *v1.Pod, r *model.Request) error {
		return modeOf(pod, r, hamiMode, "hami-core", "mig", "mps")
	},
	// What HAMi's device plugin reads: the cards of every container in order, and a
	// phase it moves on to success.
	annotate: func(p placed) map[string]string {
		cards := encodeCards(p, "NVIDIA", true)
		now := strconv.FormatInt(p.now.Unix(), 10)
		return map[string]string{
			"hami.io/vgpu-node":                string(p.node.ID),
			"hami.io/vgpu-time":                now,
			"hami.io/vgpu-devices-to-allocate": cards,
			"hami.io/vgpu-devices-allocated":   cards,
			"hami.io/bind-phase":               "allocating",
			"hami.io/bind-time":                now,
		}
	},
	devices: hamiDevices,
}

// usesHAMi says whether a container uses a word that only HAMi has.
func usesHAMi(w *words) bool {
	return w.present(hamiMemory) != "" || w.present(hamiPercent) != "" || w.present(hamiCores) != ""
}

// hamiCard is a card as HAMi's device plugin registers it on the node.
type hamiCard struct {
	ID      string `json:"id"`
	Index   int    `json:"index"`
	Count   int    `json:"count"`
	Memory  int64  `json:"devmem"`
	Type    string `json:"type"`
	NUMA    int    `json:"numa"`
	Mode    string `json:"mode"`
	Healthy bool   `json:"health"`
}

func hamiDevices(node *v1.Node) (*registration, error) {
	text, ok := node.Annotations[hamiRegister]
	if !ok {
		return nil, nil
	}
	var cards []hamiCard
	if err := json.Unmarshal([]byte(text), &cards); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s]: %w", hamiRegister, err)
	}
	reg := &registration{}
	cordoned := split(node.Annotations[hamiCordon])
	for i, c := range cards {
		if c.ID == "" || c.Memory <= 0 || c.Memory > maxMiB || c.Count < 0 || c.Index < 0 || c.Index > record.MaxIndex || !recordable(c.ID) {
			return nil, fmt.Errorf("metadata.annotations[%s]: entry %d: id, devmem, count or index is out of range: %+v", hamiRegister, i, c)
		}
		d := model.Device{Index: c.Index, UUID: c.ID, Vendor: model.NVIDIA, Model: model.ParseModel(c.Type), Memory: model.MiB(c.Memory), NUMA: c.NUMA, Tenants: c.Count}
		if !c.Healthy {
			d.Health = model.Failed
		}
		d.Cordoned = slices.Contains(cordoned, c.ID)
		reg.devices = append(reg.devices, d)
		if c.Mode != "" {
			reg.attributes = []model.Attribute{{Key: hamiMode, Value: c.Mode}}
		}
	}
	reg.sellable = len(reg.devices)
	return reg, nil
}
