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

// HAMi's words: nvidia.com/gpu counts cards as for whole GPUs, and any of the others makes them shares.
const (
	hamiMemory  v1.ResourceName = "nvidia.com/gpumem"
	hamiPercent v1.ResourceName = "nvidia.com/gpumem-percentage"
	hamiCores   v1.ResourceName = "nvidia.com/gpucores"

	hamiMode     = "nvidia.com/vgpu-mode"
	hamiRegister = "hami.io/node-nvidia-register"
	hamiCordon   = "hami.io/device-cordon"
)

func readHAMi(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
	w := &words{c: c, path: path}
	if !usesHAMi(w) {
		return nil, nil
	}
	return perCard(w, nvidiaGPU, hamiMemory, hamiPercent, hamiCores)
}

func hamiWishes(pod *v1.Pod, r *model.Request) error { return modeOf(pod, r, hamiMode) }

// annotateHAMi is what HAMi's device plugin reads: the cards of every container in order.
func annotateHAMi(p placed) map[string]string {
	cards, out := encodeCards(p, "NVIDIA", true), allocating(p, "hami.io/")
	out["hami.io/vgpu-devices-to-allocate"] = cards
	out["hami.io/vgpu-devices-allocated"] = cards
	return out
}

// allocating is what HAMi's scheduler and its descendants write first: the node, and a phase for the device plugin.
func allocating(p placed, domain string) map[string]string {
	now := strconv.FormatInt(p.now.Unix(), 10)
	return map[string]string{
		domain + "vgpu-node": string(p.node.ID), domain + "vgpu-time": now,
		domain + "bind-phase": "allocating", domain + "bind-time": now,
	}
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
		return nil, fmt.Errorf("%s: %w", annotation(hamiRegister), err)
	}
	devices, err := hamiCards(node, hamiRegister, cards)
	reg := &registration{devices: devices, sellable: len(devices)}
	for i := range devices {
		devices[i].Vendor, devices[i].Model = model.NVIDIA, model.ParseModel(cards[i].Type)
		if mode := cards[i].Mode; mode != "" {
			reg.attributes = []model.Attribute{{Key: hamiMode, Value: mode}}
		}
	}
	return reg, err
}

// hamiCards are registered cards as devices, without vendor and model.
func hamiCards(node *v1.Node, key string, cards []hamiCard) ([]model.Device, error) {
	cordoned := split(node.Annotations[hamiCordon], ",")
	var out []model.Device
	for i, c := range cards {
		if c.ID == "" || c.Memory <= 0 || c.Memory > maxMiB || c.Count < 0 || c.Index < 0 || c.Index > record.MaxIndex || !recordable(c.ID) {
			return nil, fmt.Errorf("%s: entry %d: id, devmem, count or index is out of range: %+v", annotation(key), i, c)
		}
		d := model.Device{Index: c.Index, UUID: c.ID, Memory: model.MiB(c.Memory), NUMA: c.NUMA, Tenants: c.Count, Cordoned: slices.Contains(cordoned, c.ID)}
		if !c.Healthy {
			d.Health = model.Failed
		}
		out = append(out, d)
	}
	return out, nil
}
