package records

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// form is how one device plugin spells its device IDs.
type form struct {
	plugin string
	// resource says whether the plugin may sell a resource.
	resource func(string) bool
	// read returns what an ID means on a node. known is false when it has another form.
	// A nil device with known: the ID has this form and does not tell the device.
	read func(id string, inv *device.Inventory) (d *record.Device, known bool)
}

// forms lists the device plugins that may serve a node. Of a resource that several may
// sell, the first form that knows an ID counts.
var forms = []form{
	{"Tangram and NVIDIA", nvidiaGPU, ownForm},
	// HAMi sells nvidia.com/gpu too. Its IDs are slots (<UUID>-<n>): which card a container
	// gets is in annotations, whatever slot kubelet took.
	{"HAMi", nvidiaGPU, slotForm("-")},
	{"Volcano vGPU", is("volcano.sh/vgpu-number", "volcano.sh/gpu-number", "volcano.sh/gpu-memory"), slotForm("-")},
	{"gpushare", is("aliyun.com/gpu-mem", "aliyun.com/gpu-count", "volcano.sh/gpu-memory"), slotForm("-_-")},
	{"AMD", under("amd.com/"), pciForm},
	{"Intel", under("gpu.intel.com/"), cardForm},
	{"Ascend", under("huawei.com/Ascend"), ascendForm},
}

// nvidiaGPU: GPUs, turns on them and MIG instances. Other resources of the vendor
// (network cards) are not read.
func nvidiaGPU(r string) bool {
	return r == "nvidia.com/gpu" || r == "nvidia.com/gpu.shared" || strings.HasPrefix(r, "nvidia.com/mig-")
}

// readable says whether a resource may be one of GPUs: IDs of others are not read.
func readable(resource string) bool {
	return slices.ContainsFunc(forms, func(f form) bool { return f.resource(resource) })
}

// ReadID says which device of a node an ID names, as a record would: index, UUID, and
// whether it is a turn or a MIG instance. ok is false when the ID has a form that does
// not tell the device: what such a container got is not known from kubelet. An error
// says that the ID should name a device and names none of this node.
func ReadID(resource, id string, inv *device.Inventory) (d record.Device, ok bool, err error) {
	if len(id) > maxID {
		return d, false, fmt.Errorf("%s: device ID %q is longer than %d characters", resource, clip(id), maxID)
	}
	got, known := ownForm(id, inv) // a UUID of the node is the agent's own, whatever the resource
	for _, f := range forms {
		if !known && f.resource(resource) {
			got, known = f.read(id, inv)
		}
	}
	switch {
	case !known:
		return d, false, fmt.Errorf("%s: device ID %q names no device of this node", resource, clip(id))
	case got == nil:
		return d, false, nil
	}
	return *got, true, nil
}

func under(prefix string) func(string) bool {
	return func(r string) bool { return strings.HasPrefix(r, prefix) }
}

func is(names ...string) func(string) bool {
	return func(r string) bool { return slices.Contains(names, r) }
}

// ownForm reads the agent's own IDs, which NVIDIA's plugin spells the same: the UUID of
// a GPU or MIG instance, with ::n for a turn.
func ownForm(s string, inv *device.Inventory) (*record.Device, bool) {
	id, err := ParseID(s)
	if err != nil {
		return nil, false
	}
	if d := inv.Find(id.UUID); d != nil {
		out := record.Device{Index: d.Index, UUID: d.UUID, Turn: id.Kind == Turn}
		if id.Kind == NewSlice {
			if profileOf(d, id.Profile, id.Start) == nil {
				return nil, false
			}
			out.MIG, out.Start = id.Profile, id.Start
		}
		return &out, true
	}
	// A turn on a MIG instance is held like the instance: a record has no word for both.
	if d, i := inv.Parent(id.UUID); d != nil && id.Kind != NewSlice {
		return &record.Device{Index: d.Index, UUID: d.UUID, MIG: i.Profile, Start: i.Start}, true
	}
	return nil, false
}

// profileOf returns a device's profile of a name if an instance may begin at start.
func profileOf(d *device.Device, name string, start int) *device.Profile {
	if d.MIG == nil {
		return nil
	}
	for i := range d.MIG.Profiles {
		if p := &d.MIG.Profiles[i]; device.SameProfile(p.Name, name) && slices.Contains(p.Starts, start) {
			return p
		}
	}
	return nil
}

// slotForm reads <UUID><between><number>: a slot that does not tell the device.
func slotForm(between string) func(string, *device.Inventory) (*record.Device, bool) {
	return func(s string, inv *device.Inventory) (*record.Device, bool) {
		i := strings.LastIndex(s, between)
		if i < 0 {
			return nil, false
		}
		_, ok := number(s[i+len(between):], maxTurn)
		return nil, ok && inv.Find(s[:i]) != nil
	}
}

// pciForm reads AMD's: a PCI address. Partitions (amdgpu_xcp_30) do not tell the device.
func pciForm(s string, inv *device.Inventory) (*record.Device, bool) {
	for i := range inv.Devices {
		if d := &inv.Devices[i]; d.PCIBusID != "" && strings.EqualFold(d.PCIBusID, s) {
			return &record.Device{Index: d.Index, UUID: d.UUID}, true
		}
	}
	return nil, strings.HasPrefix(s, "amdgpu_xcp_")
}

// cardForm reads Intel's: cardN-M, card N of the node, its M-th share.
func cardForm(s string, inv *device.Inventory) (*record.Device, bool) {
	card, share, _ := strings.Cut(s, "-")
	index, prefixed := strings.CutPrefix(card, "card")
	m, valid := number(share, maxTurn)
	d := byIndex(index, inv)
	if !prefixed || !valid || d == nil {
		return nil, false
	}
	d.Turn = m > 0 // the first share of a card cannot be told from a whole one
	return d, true
}

// ascendForm reads Huawei's: Ascend910-3, the fourth chip. Virtual chips
// (Ascend910-2c-100-0) do not tell the device.
func ascendForm(s string, inv *device.Inventory) (*record.Device, bool) {
	name, rest, ok := strings.Cut(s, "-")
	if !ok || !strings.HasPrefix(name, "Ascend") {
		return nil, false
	}
	if d := byIndex(rest, inv); d != nil {
		return d, true
	}
	return nil, strings.Contains(rest, "-")
}

func byIndex(s string, inv *device.Inventory) *record.Device {
	n, ok := number(s, record.MaxIndex)
	if !ok {
		return nil
	}
	for _, d := range inv.Devices {
		if d.Index == n {
			return &record.Device{Index: n, UUID: d.UUID}
		}
	}
	return nil
}
