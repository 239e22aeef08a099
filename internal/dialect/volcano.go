package dialect

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// Volcano's words: GPU share (memory of one card), GPU number (whole cards) and
// vGPU (cards, memory and compute of each).
const (
	volcanoMemory v1.ResourceName = "volcano.sh/gpu-memory"
	volcanoCards  v1.ResourceName = "volcano.sh/gpu-number"

	volcanoVCards   v1.ResourceName = "volcano.sh/vgpu-number"
	volcanoVMemory  v1.ResourceName = "volcano.sh/vgpu-memory"
	volcanoVPercent v1.ResourceName = "volcano.sh/vgpu-memory-percentage"
	volcanoVCores   v1.ResourceName = "volcano.sh/vgpu-cores"

	volcanoMode     = "volcano.sh/vgpu-mode"
	volcanoRegister = "volcano.sh/node-vgpu-register"
	volcanoUse      = "volcano.sh/vgpu-use-gpuuuid"
	volcanoAvoid    = "volcano.sh/vgpu-nouse-gpuuuid"
)

// volcanoIndexes is what volcano-sh/devices reads: which cards, and since when.
func volcanoIndexes(p placed) map[string]string {
	var indexes []string
	for slot := range p.grant.Set.Slots() {
		indexes = append(indexes, strconv.Itoa(p.node.Devices[slot].Index))
	}
	return map[string]string{
		"volcano.sh/gpu-index":      strings.Join(indexes, ","),
		"volcano.sh/predicate-time": strconv.FormatInt(p.now.UnixNano(), 10),
	}
}

// volcanoPlainDevices derives cards from what volcano-sh/devices publishes: their number, and the
// memory of all, which are equal.
func volcanoPlainDevices(node *v1.Node) (*registration, error) {
	list := node.Status.Allocatable
	return equalCards(node, quantity(list, volcanoCards), quantity(list, volcanoMemory), 1)
}

func readVolcanoVGPU(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
	return perCard(&words{c: c, path: path}, volcanoVCards, volcanoVMemory, volcanoVPercent, volcanoVCores)
}

func volcanoWishes(pod *v1.Pod, r *model.Request) error {
	if err := readUUIDs(pod, r, volcanoUse, volcanoAvoid); err != nil {
		return err
	}
	return modeOf(pod, r, volcanoMode)
}

// annotateVolcanoVGPU is what volcano-vgpu-device-plugin reads; containers without vGPUs have no entry.
func annotateVolcanoVGPU(p placed) map[string]string {
	cards, out := encodeCards(p, "NVIDIA", false), allocating(p, "volcano.sh/")
	out["volcano.sh/vgpu-ids-new"] = cards
	out["volcano.sh/devices-to-allocate"] = cards
	return out
}

// volcanoVDevices reads "uuid,count,MiB,type,health,mode:" of each card.
func volcanoVDevices(node *v1.Node) (*registration, error) {
	text, ok := node.Annotations[volcanoRegister]
	if !ok {
		return nil, nil
	}
	reg := &registration{}
	for i, card := range split(text, ":") {
		f := strings.Split(card, ",")
		if len(f) < 6 {
			return nil, fmt.Errorf("%s: card %d has %d fields, needs 6", annotation(volcanoRegister), i, len(f))
		}
		count, err1 := strconv.Atoi(f[1])
		memory, err2 := strconv.ParseInt(f[2], 10, 64)
		if f[0] == "" || err1 != nil || err2 != nil || count < 0 || memory <= 0 || memory > maxMiB || !recordable(f[0]) {
			return nil, fmt.Errorf("%s: card %d: uuid, count or memory is out of range: %s", annotation(volcanoRegister), i, card)
		}
		d := model.Device{Index: i, UUID: f[0], Vendor: model.NVIDIA, Model: model.ParseModel(f[3]), Memory: model.MiB(memory), NUMA: model.NUMAUnknown, Tenants: count}
		if f[4] != "true" {
			d.Health = model.Failed
		}
		reg.devices = append(reg.devices, d)
		reg.attributes = []model.Attribute{{Key: volcanoMode, Value: f[5]}}
	}
	reg.sellable = len(reg.devices)
	return reg, nil
}
